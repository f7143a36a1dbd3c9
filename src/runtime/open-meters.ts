import { mayHaveProcess } from './container/state.ts';
import type { Groundwork } from './groundwork.ts';
import type { Host } from './host.ts';
import type { KernelCalls } from './kernel-calls.ts';
import type { Storage } from './open-storage.ts';
import { isReady } from './sandbox/state.ts';
import { Meters } from './stats/meters.ts';

/** What is measured on this host, of the objects that are in the records. */
export function openMeters(
  { clock, background }: Groundwork,
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
    readInside: (op, path) => pins.interfaceCounters(op, path),
    walkLayer: (op, id) => snapshots.usage(op, id),
  });
  containers.observe((before, after) => {
    if (before !== undefined && after === undefined) meters.layers.forget(before.meta.id);
  });
  return meters;
}
