import { basename, dirname } from 'node:path';
import { messageOf } from '../lib/errors.ts';
import type { Ledger } from '../lib/ledger.ts';
import { subjectOf } from './container/subject.ts';
import type { Groundwork, RuntimeDeps } from './groundwork.ts';
import { layerStore } from './image-parts.ts';
import { IMAGE_SCHEMA, ImageStore } from './image/image-store.ts';
import type { KernelCalls } from './kernel-calls.ts';
import { LayerDirectory } from './snapshot/layer-directory.ts';
import { Snapshots, type SnapshotsDeps } from './snapshot/snapshots.ts';
import { SnapshotThread } from './snapshot/worker/snapshot-thread.ts';
import { CONTAINER_CODEC, type ContainerStore } from './store/container-record.ts';
import { openDatabases, type OpenedDatabases } from './store/open-databases.ts';
import { RecordStore } from './store/record-store.ts';
import { SANDBOX_CODEC, type SandboxStore } from './store/sandbox-record.ts';
import { tellDamaged } from './store/tell-damaged.ts';

/** All that the runtime keeps: records and the ledger, images, unpacked layers, and containers' writable ones. */
export interface Storage {
  readonly ledger: Ledger;
  readonly sandboxes: SandboxStore;
  readonly containers: ContainerStore;
  readonly layers: LayerDirectory;
  readonly snapshots: Snapshots;
  readonly images: ImageStore;
  close(): Promise<void>;
}

type Records = Pick<Storage, 'sandboxes' | 'containers'>;

/** Opens the databases first: layers, snapshots and images are told by the records who uses them. */
export async function openStorage(ground: Groundwork, deps: RuntimeDeps, kernel: KernelCalls): Promise<Storage> {
  const { paths, clock, log, bootId, room, journal, faults } = ground;
  const how = { clock, log, bootId, schema: IMAGE_SCHEMA, reserve: room.reservePath };
  const { durable, volatile, ledger } = await openDatabases(deps.store, paths, how);
  const recordDeps = { db: durable, clock, log };
  const sandboxes = await RecordStore.open(recordDeps, SANDBOX_CODEC);
  const containers = await RecordStore.open(recordDeps, CONTAINER_CODEC);
  const records = { sandboxes, containers };
  await tellDamaged(journal, { ...records, ledger });

  const thread = new SnapshotThread({ clock, faults });
  const createThread = new SnapshotThread({ clock, faults });
  const usageThread = new SnapshotThread({ clock, faults });
  const threads = { thread, createThread, usageThread };
  const { layers, snapshots } = await openLayers(ground, kernel, threads, records);
  const images = await openImages(ground, deps, { db: durable, layers, containers });
  return {
    ledger,
    ...records,
    layers,
    snapshots,
    images,
    close: async () => {
      await thread.close();
      await createThread.close();
      await usageThread.close();
      await volatile.close();
      await durable.close();
    },
  };
}

async function openLayers(
  { paths, clock, log, journal, faults, background }: Groundwork,
  { mounts, remover }: KernelCalls,
  { thread, createThread, usageThread }: Required<Pick<SnapshotsDeps, 'thread' | 'createThread' | 'usageThread'>>,
  { sandboxes, containers }: Records,
): Promise<Pick<Storage, 'layers' | 'snapshots'>> {
  const layerDeps = { paths, thread, usageThread, remover, clock, log, faults };
  const layers = await LayerDirectory.open(background, layerDeps);
  await faults.reach('recovery/layers-opened');
  const snapshots = await Snapshots.open({
    ...layerDeps,
    createThread,
    layers,
    mounts,
    onDetached: (target, users) => {
      const record = containers.get(basename(dirname(target)));
      journal.record({
        subject: record === undefined ? {} : subjectOf({ sandboxes }, record.meta),
        what: 'container.rootfs-detached',
        message: `its root file system was in use and is detached: it goes when ${users} lets go of it`,
        outcome: 'ok',
      });
    },
  });
  await faults.reach('recovery/snapshots-opened');
  return { layers, snapshots };
}

async function openImages(
  { settings, paths, clock, log, faults, room, journal, background }: Groundwork,
  { credentialFiles, env }: RuntimeDeps,
  { db, layers, containers }: { db: OpenedDatabases['durable']; layers: LayerDirectory; containers: ContainerStore },
): Promise<ImageStore> {
  const images = await ImageStore.open({
    db,
    layers: layerStore(layers),
    clock,
    log,
    faults,
    room,
    paths,
    ...(settings.pinnedImages === undefined ? {} : { pinned: settings.pinnedImages }),
    registry: { configDir: settings.registryConfigDir, credentialFiles, env },
    journal,
    imageUser: (imageId) => {
      const user = containers.list().find(({ meta: { facts } }) => {
        return facts.image.id === imageId || facts.imageVolumes?.some((volume) => volume.imageId === imageId) === true;
      });
      return user === undefined ? undefined : `container ${user.meta.id}`;
    },
  });
  layers.onReleased((diffIds) => {
    images.sweepReleased(background, diffIds).catch((error: unknown) => {
      log.warn({ error: messageOf(error) }, 'layers that nobody uses any more stay until the next sweep');
    });
  });
  await faults.reach('recovery/images-opened');
  return images;
}
