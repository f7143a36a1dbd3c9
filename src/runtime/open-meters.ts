import type { Op } from '../lib/abort.ts';
import { mayHaveProcess, type ContainerStatus } from './container/state.ts';
import type { Groundwork } from './groundwork.ts';
import type { Host } from './host.ts';
import type { KernelCalls } from './kernel-calls.ts';
import type { Storage } from './open-storage.ts';
import { isReady } from './sandbox/state.ts';
import { DiskUse, type KeptTree, type TreeSize } from './stats/disk-use.ts';
import { LayerUsage } from './stats/layer-usage.ts';
import { Meters } from './stats/meters.ts';

/** What is measured on this host, of the objects that are in the records. */
export function openMeters(
  { paths, clock, background }: Groundwork,
  { cgroups }: Host,
  { pins }: KernelCalls,
  { sandboxes, containers, snapshots }: Storage,
): Meters {
  const meters = new Meters({
    clock,
    background,
    host: cgroups.host,
    running: () => [
      ...containers
        .list()
        .filter(({ status }) => mayHaveProcess(status))
        .map(({ meta }) => meta.facts.cgroupPath),
      ...sandboxes
        .list()
        .filter(({ status }) => isReady(status))
        .map(({ meta }) => meta.facts.cgroupPath),
    ],
    folder: paths.root,
    readInside: (op, path) => pins.interfaceCounters(op, path),
    walkLayer: (op, id) => snapshots.usage(op, id),
  });
  containers.observe((before, after) => {
    if (before !== undefined && after === undefined) meters.layers.forget(before.meta.id);
  });
  return meters;
}

/** What images and containers take on the disk of the root folder. */
export function openDiskUse(
  { clock, background }: Groundwork,
  { containers, layers, snapshots }: Storage,
  meters: Pick<Meters, 'layers'>,
): DiskUse {
  const walk = (op: Op, diffId: string): Promise<TreeSize> => layers.usage(op, diffId);
  return new DiskUse({
    images: {
      usage: new LayerUsage({ clock, background, walk }),
      list: () => layers.list().map((id) => ({ id, still: true, ...assumedOf(layers.measure(id)) })),
    },
    containers: {
      usage: meters.layers,
      list: async () => (await snapshots.list()).map((id) => ({ id, still: isExited(containers.get(id)?.status) })),
    },
  });
}

function assumedOf(measured: ReturnType<Storage['layers']['measure']>): Pick<KeptTree, 'assumed'> {
  return measured === undefined ? {} : { assumed: { bytes: measured.sizeBytes, inodes: measured.inodes } };
}

function isExited(status: ContainerStatus | undefined): boolean {
  return status?.state.kind === 'exited';
}
