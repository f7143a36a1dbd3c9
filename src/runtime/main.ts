import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Inspector } from '../cri/inspector/inspector.ts';
import type { ImageService, RuntimeService } from '../cri/services.ts';
import type { JournalReader, JournalWriter } from '../journal/journal.ts';
import { withDeadline, type Op } from '../lib/abort.ts';
import { CLEANUP_BACKOFF } from '../lib/backoff.ts';
import type { Clock } from '../lib/clock.ts';
import type { Examiner } from '../lib/doctor.ts';
import { NO_FAULTS, type FaultPoints } from '../lib/fault-points.ts';
import { canceled, messageOf } from '../lib/errors.ts';
import { Lanes } from '../lib/lane.ts';
import type { Log } from '../lib/log.ts';
import type { StoreThread } from '../lib/store/store-thread.ts';
import { Mounts } from '../linux/mounts.ts';
import { Namespaces } from '../linux/namespaces.ts';
import { PidfdWatcher } from '../linux/pidfd-watcher.ts';
import { bootId as readBootId } from '../linux/procfs.ts';
import { SafeRemove } from '../linux/safe-remove.ts';
import { SpecBuilder } from './container/spec-builder.ts';
import { taskOf } from './container/state.ts';
import { stopAsOrdered, type StopOrder } from './container/stop-container.ts';
import { StopDriver } from './container/stop-driver.ts';
import type { RuntimeContext } from './context.ts';
import { runtimeExaminer } from './doctor/runtime-examiner.ts';
import { storedParts } from './doctor/stored-parts.ts';
import { cleanupName, type CleanupEvent } from './events/cleanup-event.ts';
import { ExitMonitors } from './events/exit-monitors.ts';
import { handleCleanup } from './events/handle-cleanup.ts';
import { correctExit, recordExit } from './events/record-exit.ts';
import { RetryQueue } from './events/retry-queue.ts';
import { SandboxLook } from './events/sandbox-look.ts';
import { SingleFlight } from './events/single-flight.ts';
import { openHost } from './host.ts';
import { imageLookup, layerStore } from './image-parts.ts';
import { createImageService } from './image/image-service.ts';
import { IMAGE_SCHEMA, ImageStore } from './image/image-store.ts';
import { createInspector } from './inspector/runtime-inspector.ts';
import { cgroupTree, mountPoints, namespacePins, processLook, treeRemover } from './linux-parts.ts';
import { Iptables } from './network/iptables.ts';
import { PodNetwork } from './network/pod-network.ts';
import { prepareInfraRootfs } from './oci/build-infra-spec.ts';
import { OciRuntime } from './oci/oci-runtime.ts';
import { findOrphans } from './recovery/orphans.ts';
import { recover } from './recovery/recover.ts';
import { createRuntimeService } from './runtime-service.ts';
import type { RuntimeSettings } from './settings.ts';
import { LayerDirectory } from './snapshot/layer-directory.ts';
import { Snapshots } from './snapshot/snapshots.ts';
import { SnapshotThread } from './snapshot/worker/snapshot-thread.ts';
import { CONTAINER_CODEC } from './store/container-record.ts';
import { NameReservations } from './store/name-reservations.ts';
import { openDatabases } from './store/open-databases.ts';
import { RuntimePaths } from './store/paths.ts';
import { RecordStore } from './store/record-store.ts';
import { releaseTable, withFaults } from './store/release-table.ts';
import { SANDBOX_CODEC } from './store/sandbox-record.ts';
import { ExitWatcher } from './task/exit-watcher.ts';
import { linuxProcessTable } from './task/process-table.ts';
import { linuxTaskCgroups } from './task/task-cgroups.ts';
import { TaskService } from './task/task-service.ts';

export type { RuntimeSettings } from './settings.ts';

export interface RuntimeDeps {
  /** A container's or an infra process's exit is visible now: a hint for who looks at the runtime from time to time. */
  readonly onExit?: () => void;
  /** Who else is asked by `gantry doctor`, at that moment: the agent, for pods' folders. */
  readonly otherExaminers?: () => readonly Examiner[];
  readonly clock: Clock;
  readonly log: Log;
  readonly journal: JournalWriter & JournalReader;
  readonly store: StoreThread;
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
  readonly inspector: Inspector;
  /** The OCI runtime that was chosen. */
  readonly ociRuntime: string;
  readonly notices: readonly string[];
  /** Fulfilled when everything that an earlier process left has been looked at. Serving need not wait for it. */
  readonly recovered: Promise<void>;
  /** Lets go of everything in this process. Pods go on running. */
  close(): Promise<void>;
}

/** One event in the queue (BEHAVIOUR.md C1); what it started goes on, and the next attempt joins it. */
const ATTEMPT_TIMEOUT_MS = 10_000;
/** A command in state D must not keep the daemon from serving. */
const SWEEP_EXECS_MS = 10_000;

/**
 * Opens the stores, finds the parts, and wires them. Returns when every question can be answered from the records; what has to be
 * brought in line with the world follows in the background (`recovered`).
 * Throws FailedPrecondition, in one line that says what to do, when a part of the host is missing.
 */
export async function createRuntime(settings: RuntimeSettings, deps: RuntimeDeps): Promise<Runtime> {
  const { clock, journal, faults = NO_FAULTS } = deps;
  const log = deps.log.child({ component: 'runtime' });
  const startedAtWallMs = clock.wallMs();
  const closing = new AbortController();
  const background: Op = { signal: closing.signal, log };
  const paths = new RuntimePaths(settings.root, settings.state);
  for (const path of [settings.root, settings.state, paths.sandboxes, paths.containers]) {
    await mkdir(path, { recursive: true, mode: 0o711 });
  }
  for (const path of [paths.exits, join(settings.state, 'socks'), join(settings.state, 'exec')]) {
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
  });
  const storeDeps = { db: durable, clock, log };
  const sandboxes = await RecordStore.open(storeDeps, SANDBOX_CODEC);
  const containers = await RecordStore.open(storeDeps, CONTAINER_CODEC);

  const mounts = new Mounts({ clock });
  const pins = new Namespaces({ clock });
  const remover = new SafeRemove({ clock });
  const snapshotThread = new SnapshotThread({ clock });
  const layerDeps = { root: settings.root, thread: snapshotThread, remover, clock, log, faults };
  const layers = await LayerDirectory.open(background, layerDeps);
  const snapshots = await Snapshots.open({ ...layerDeps, layers, mounts });
  const images = await ImageStore.open({
    db: durable,
    layers: layerStore(layers),
    clock,
    log,
    faults,
    root: settings.root,
    registry: { configDir: settings.registryConfigDir, credentialFiles: deps.credentialFiles, env: deps.env },
    journal,
    imageUser: (imageId) => {
      const user = containers.list().find(({ meta }) => meta.facts.image.id === imageId);
      return user === undefined ? undefined : `container ${user.meta.id}`;
    },
  });

  const pidfds = new PidfdWatcher();
  const processes = linuxProcessTable(pidfds);
  const tasks = new TaskService({
    clock,
    faults,
    processes,
    cgroups: linuxTaskCgroups(cgroups),
    runtime: new OciRuntime(probed.runtime),
    conmon: host.conmon,
    monitorCgroup: host.monitorCgroup,
    exitsDir: paths.exits,
    stateDir: settings.state,
  });
  const networks = new PodNetwork({
    clock,
    log,
    ledger,
    instance: settings.instance,
    confDir: settings.cniConfDir,
    binDirs: settings.cniBinDirs,
    ipamDir: join(settings.root, 'cni', 'ipam'),
    defaultNetwork: settings.defaultNetwork,
  });
  const exits: ExitWatcher = new ExitWatcher({
    clock,
    log,
    processes,
    exitsDir: paths.exits,
    oomKillCount: (path) => cgroups.oomKillCount(path),
    onExit: (id, exit) => {
      recordExit(rt, id, exit);
      deps.onExit?.();
    },
    onCorrection: (id, exit) => correctExit(rt, id, exit),
  });

  const parts = {
    tasks,
    snapshots,
    networks,
    namespaces: namespacePins(pins),
    mounts: mountPoints(mounts),
    cgroups: cgroupTree(cgroups),
    trees: treeRemover(remover),
  };
  const lanes = new Lanes(clock, log);
  const rt: RuntimeContext = {
    settings,
    paths,
    clock,
    log,
    journal,
    bootId,
    background,
    faults,
    notices: [
      ...probed.refused.map(({ name, reason }) => `OCI runtime ${name} is not used: ${reason}`),
      ...(seccomp.defaultSource === undefined ? ['no seccomp profile on this host: a built-in one is used'] : []),
      ...(catatonit === undefined ? ['catatonit is not installed: no pod can share its PID namespace'] : []),
    ],
    sandboxes,
    containers,
    sandboxNames: new NameReservations<string>('sandbox'),
    containerNames: new NameReservations<string>('container'),
    answered: new Set(),
    adopted: new Set(),
    ledger,
    releasers: { ...withFaults(releaseTable({ ...parts, ledger, sandboxes, lanes }), faults), ...networks.releasers },
    lanes,
    retries: new RetryQueue<CleanupEvent>({
      clock,
      log,
      policy: CLEANUP_BACKOFF,
      attemptTimeoutMs: ATTEMPT_TIMEOUT_MS,
      nameOf: cleanupName,
      handle: (op, id, event) => handleCleanup(op, rt, id, event),
    }),
    cleanups: new SingleFlight(),
    starts: new SingleFlight(),
    removals: new SingleFlight(),
    sandboxStops: new SingleFlight(),
    stops: new StopDriver(clock),
    exits: new ExitMonitors(exits),
    specs: new SpecBuilder({
      paths,
      host: host.facts,
      runtime: probed.runtime,
      seccomp,
      ...(catatonit === undefined ? {} : { catatonit }),
      pidOf: (id) => {
        const record = containers.get(id);
        return record === undefined ? undefined : taskOf(record.status)?.pid;
      },
    }),
    images: imageLookup(images),
    processes: processLook,
    ...parts,
  };

  takeNames(rt);
  await faults.reach('recovery/opened');
  // Before anything can be executed: whoever waited for these has gone with the earlier process.
  await withDeadline(background, clock, SWEEP_EXECS_MS, 'end abandoned execs', (op) => tasks.sweepExecs(op)).catch(
    (error: unknown) => {
      log.warn({ error: messageOf(error) }, 'what an earlier process was executing may still run');
    },
  );
  await faults.reach('recovery/execs-ended');
  const orphans = await findOrphans(rt, () => snapshots.list());
  await faults.reach('recovery/orphans-found');
  await exits.start();
  const look = new SandboxLook(rt);
  look.start();
  const recovered = recover(rt, orphans)
    .then(async () => {
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
    inspector: createInspector({
      rt,
      journal,
      ociRuntime,
      startedAtWallMs,
      recovered,
      examiners: () => [examiner, ...(deps.otherExaminers?.() ?? [])],
    }),
    ociRuntime,
    notices: rt.notices,
    recovered,
    close: async () => {
      closing.abort(canceled('gantryd is stopping'));
      look.close();
      rt.stops.close();
      rt.retries.close();
      sandboxes.close();
      containers.close();
      networks.close();
      images.close();
      await exits.close();
      pidfds.close();
      pins.close();
      remover.close();
      await snapshotThread.close();
      await volatile.close();
      await durable.close();
    },
  };
}

/** Every object that is whole keeps its name; a half-made one holds none: it is being rolled back (FAILURES.md row 41). */
function takeNames(rt: RuntimeContext): void {
  for (const { meta, status } of rt.sandboxes.list()) {
    if (status.state.kind !== 'starting') rt.sandboxNames.take(meta.facts.name, meta.id);
  }
  for (const { meta, status } of rt.containers.list()) {
    if (status.state.kind !== 'creating') rt.containerNames.take(meta.facts.name, meta.id);
  }
}
