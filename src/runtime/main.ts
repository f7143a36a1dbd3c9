import { mkdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { Inspector } from '../cri/inspector/inspector.ts';
import type { ImageService, RuntimeService } from '../cri/services.ts';
import type { JournalReader, JournalWriter } from '../journal/journal.ts';
import type { Op } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import type { Examiner } from '../lib/doctor.ts';
import { NO_FAULTS, type FaultPoints } from '../lib/fault-points.ts';
import { canceled, messageOf } from '../lib/errors.ts';
import type { Ledger } from '../lib/ledger.ts';
import type { Log } from '../lib/log.ts';
import { AMPLE_ROOM, type Room } from '../lib/store/disk-room.ts';
import type { StoreThread } from '../lib/store/store-thread.ts';
import { HangSafe } from '../linux/hang-safe.ts';
import { HostFiles } from '../linux/host-files.ts';
import { Mounts } from '../linux/mounts.ts';
import { Namespaces } from '../linux/namespaces.ts';
import { PidfdWatcher } from '../linux/pidfd-watcher.ts';
import { bootId as readBootId } from '../linux/procfs.ts';
import { SafeRemove } from '../linux/safe-remove.ts';
import { assembleRuntime } from './assemble-runtime.ts';
import { SpecBuilder } from './container/spec-builder.ts';
import { taskOf } from './container/state.ts';
import { stopAsOrdered, type StopOrder } from './container/stop-container.ts';
import { subjectOf } from './container/subject.ts';
import { roomExaminer } from './doctor/room-examiner.ts';
import { runtimeExaminer } from './doctor/runtime-examiner.ts';
import { storedParts } from './doctor/stored-parts.ts';
import type { ContainerEvents } from './events/container-events.ts';
import { openHost } from './host.ts';
import { imageLookup, layerStore } from './image-parts.ts';
import { createImageService } from './image/image-service.ts';
import { IMAGE_SCHEMA, ImageStore } from './image/image-store.ts';
import { createInspector } from './inspector/runtime-inspector.ts';
import { cgroupTree, folders, mountPoints, namespacePins, processLook, treeRemover } from './linux-parts.ts';
import { Iptables } from './network/iptables.ts';
import { PodNetwork } from './network/pod-network.ts';
import { prepareInfraRootfs } from './oci/build-infra-spec.ts';
import { OciRuntime } from './oci/oci-runtime.ts';
import { createRuntimeService } from './runtime-service.ts';
import type { RuntimeSettings } from './settings.ts';
import { LayerDirectory } from './snapshot/layer-directory.ts';
import { Snapshots } from './snapshot/snapshots.ts';
import { SnapshotThread } from './snapshot/worker/snapshot-thread.ts';
import { CONTAINER_CODEC } from './store/container-record.ts';
import { openDatabases } from './store/open-databases.ts';
import { parseOwner } from './store/owners.ts';
import { RuntimePaths } from './store/paths.ts';
import { RecordStore } from './store/record-store.ts';
import { SANDBOX_CODEC } from './store/sandbox-record.ts';
import { tellDamaged } from './store/tell-damaged.ts';
import { exitFolder } from './task/exit-folder.ts';
import { linuxProcessTable } from './task/process-table.ts';
import { linuxTaskCgroups } from './task/task-cgroups.ts';
import { TaskService } from './task/task-service.ts';

export type { RuntimeSettings } from './settings.ts';

export interface RuntimeDeps {
  /** Who else is asked by `gantry doctor`, at that moment: the agent, for pods' folders. */
  readonly otherExaminers?: () => readonly Examiner[];
  readonly clock: Clock;
  readonly log: Log;
  readonly journal: JournalWriter & JournalReader;
  readonly store: StoreThread;
  /** On the disk of the root folder (default: ample), and the reserve that the records may use up there. */
  readonly room?: Room & { readonly reservePath?: string };
  /** Files with registry credentials, the first match wins. */
  readonly credentialFiles: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** For tests that kill the daemon at a given step. */
  readonly faults?: FaultPoints;
}

export interface Runtime {
  readonly runtime: RuntimeService;
  readonly image: ImageService;
  /** For what CRI has no words for: import, tag. */
  readonly images: ImageStore;
  /** Ends a container for a reason, if asked with another signal than its own. */
  stop(op: Op, order: StopOrder): Promise<void>;
  /** What happens to containers and sandboxes, numbered; over CRI it has no numbers. */
  readonly events: Pick<ContainerEvents, 'follow' | 'lastSeq'>;
  readonly inspector: Inspector;
  /** The OCI runtime that was chosen. */
  readonly ociRuntime: string;
  readonly notices: readonly string[];
  /** Fulfilled when everything that an earlier process left has been looked at. Serving need not wait for it. */
  readonly recovered: Promise<void>;
  /** Lets go of everything in this process. Pods go on running. */
  close(): Promise<void>;
}

/**
 * Opens the stores, finds the parts, and wires them. Returns when every question can be answered from the records; what has to be
 * brought in line with the world follows in the background (`recovered`).
 * Throws FailedPrecondition, in one line that says what to do, when a part of the host is missing.
 */
export async function createRuntime(settings: RuntimeSettings, deps: RuntimeDeps): Promise<Runtime> {
  const { clock, journal, faults = NO_FAULTS } = deps;
  const room: NonNullable<RuntimeDeps['room']> = deps.room ?? AMPLE_ROOM;
  const log = deps.log.child({ component: 'runtime' });
  const startedAtWallMs = clock.wallMs();
  const closing = new AbortController();
  const background: Op = { signal: closing.signal, log };
  const paths = new RuntimePaths(settings.root, settings.state);
  for (const path of [settings.root, settings.state, paths.sandboxes, paths.containers]) {
    await mkdir(path, { recursive: true, mode: 0o711 });
  }
  for (const path of [
    paths.exits.written,
    paths.exits.kept,
    join(settings.state, 'socks'),
    join(settings.state, 'exec'),
  ]) {
    await mkdir(path, { recursive: true, mode: 0o700 });
  }
  await prepareInfraRootfs(paths.infraRootfs);
  await mkdir(settings.netnsDir, { recursive: true, mode: 0o755 });
  const bootId = await readBootId();

  const host = await openHost(background, settings, clock);
  const { cgroups, probed, seccomp, catatonit } = host;

  const { durable, volatile, ledger } = await openDatabases(deps.store, paths, {
    clock,
    log,
    bootId,
    schema: IMAGE_SCHEMA,
    reserve: room.reservePath,
  });
  const storeDeps = { db: durable, clock, log };
  const sandboxes = await RecordStore.open(storeDeps, SANDBOX_CODEC);
  const containers = await RecordStore.open(storeDeps, CONTAINER_CODEC);
  tellDamaged(journal, { sandboxes, containers });

  const hangSafe = new HangSafe({ clock });
  const mounts = new Mounts({ clock, hangSafe });
  const pins = new Namespaces({ clock, faults });
  const remover = new SafeRemove({ clock, faults });
  const snapshotThread = new SnapshotThread({ clock, faults });
  const createThread = new SnapshotThread({ clock, faults });
  const layerDeps = { root: settings.root, thread: snapshotThread, remover, clock, log, faults };
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
  const images = await ImageStore.open({
    db: durable,
    layers: layerStore(layers),
    clock,
    log,
    faults,
    room,
    root: settings.root,
    registry: { configDir: settings.registryConfigDir, credentialFiles: deps.credentialFiles, env: deps.env },
    journal,
    imageUser: (imageId) => {
      const user = containers.list().find(({ meta }) => meta.facts.image.id === imageId);
      return user === undefined ? undefined : `container ${user.meta.id}`;
    },
  });
  await faults.reach('recovery/images-opened');

  const pidfds = new PidfdWatcher({ clock, log });
  const processes = linuxProcessTable(pidfds);
  const tasks = new TaskService({
    clock,
    faults,
    processes,
    cgroups: linuxTaskCgroups(cgroups),
    runtime: new OciRuntime(probed.runtime),
    conmon: host.conmon,
    monitorCgroup: host.monitorCgroup,
    cp: host.cp,
    exits: paths.exits,
    stateDir: settings.state,
  });
  const networks = new PodNetwork({
    clock,
    log,
    faults,
    ledger,
    instance: settings.instance,
    confDir: settings.cniConfDir,
    binDirs: settings.cniBinDirs,
    ipamDir: join(settings.root, 'cni', 'ipam'),
    defaultNetwork: settings.defaultNetwork,
    onDoneWithout: (subject, why) => {
      const message = `CNI DEL is done without, as nothing is held any more: ${why}`;
      journal.record({ subject, what: 'sandbox.network-done-without', message, outcome: 'ok' });
    },
  });
  const assembled = assembleRuntime({
    settings,
    paths,
    clock,
    log,
    journal,
    bootId,
    background,
    faults,
    room,
    notices: [
      ...probed.refused.map(({ name, reason }) => `OCI runtime ${name} is not used: ${reason}`),
      ...(seccomp.defaultSource === undefined ? ['no seccomp profile on this host: a built-in one is used'] : []),
      ...(catatonit === undefined ? ['catatonit is not installed: no pod can share its PID namespace'] : []),
    ],
    sandboxes,
    containers,
    ledger,
    tasks,
    specs: new SpecBuilder({
      paths,
      host: host.facts,
      runtime: probed.runtime,
      seccomp,
      hostFiles: new HostFiles(hangSafe),
      ...(catatonit === undefined ? {} : { catatonit }),
      pidOf: (id) => {
        const record = containers.get(id);
        return record === undefined ? undefined : taskOf(record.status)?.pid;
      },
    }),
    images: imageLookup(images),
    snapshots,
    networks,
    networkReleasers: networks.releasers,
    namespaces: namespacePins(pins),
    mounts: mountPoints(mounts),
    cgroups: cgroupTree(cgroups),
    folders,
    trees: treeRemover(remover),
    processes: processLook,
    exitSources: {
      processes,
      exits: exitFolder(paths.exits),
      oomKillCount: (path) => cgroups.oomKillCount(path),
    },
  });
  const { rt } = assembled;

  const tookUp = await assembled.takeUp(() => snapshots.list());
  const recovered = tookUp.recovered
    .then(async () => {
      await networks.giveBackStrays((id) => sandboxes.get(id) !== undefined || ownsAny(ledger, id));
      await networks.repair(background);
      networks.start();
      await faults.reach('recovery/network-repaired');
      await images.sweep(background);
      await faults.reach('recovery/images-swept');
    })
    .catch((error: unknown) => {
      log.error({ error: messageOf(error) }, 'recovery was not finished');
    });

  const examiner = runtimeExaminer({
    rt,
    iptables: new Iptables(),
    storage: storedParts(images, layers, snapshots),
    ociRuntime: probed.runtime,
    repairNetwork: (op) => networks.repair(op),
  });
  const ociRuntime = `${probed.runtime.name} (${probed.runtime.path})`;
  return {
    runtime: createRuntimeService(rt),
    image: createImageService({ images }),
    images,
    stop: (op, order) => stopAsOrdered(op, rt, order),
    events: rt.events,
    inspector: createInspector({
      rt,
      journal,
      ociRuntime,
      startedAtWallMs,
      recovered,
      examiners: () => [examiner, roomExaminer(room), ...(deps.otherExaminers?.() ?? [])],
    }),
    ociRuntime,
    notices: rt.notices,
    recovered,
    close: async () => {
      closing.abort(canceled('gantryd is stopping'));
      const ended = assembled.close();
      networks.close();
      images.close();
      await ended;
      pidfds.close();
      hangSafe.close();
      pins.close();
      remover.close();
      await snapshotThread.close();
      await createThread.close();
      await volatile.close();
      await durable.close();
    },
  };
}

/** A sandbox can be gone while its disconnecting is still to be done. */
function ownsAny(ledger: Ledger, id: string): boolean {
  return ledger.owners().some((owner) => parseOwner(owner)?.id === id);
}
