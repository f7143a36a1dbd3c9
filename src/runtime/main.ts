import type { Inspector } from '../cri/inspector/inspector.ts';
import type { ImageService, RuntimeService } from '../cri/services.ts';
import { runtimeStreams } from '../cri/stream-lists.ts';
import { withDeadline, type Op } from '../lib/abort.ts';
import { canceled, messageOf } from '../lib/errors.ts';
import type { Ledger } from '../lib/ledger.ts';
import { isThere } from '../lib/may-be-gone.ts';
import { assembleRuntime } from './assemble-runtime.ts';
import { stopAsOrdered, type StopOrder } from './container/stop-container.ts';
import type { RuntimeContext } from './context.ts';
import { roomExaminer } from './doctor/room-examiner.ts';
import { runtimeExaminer } from './doctor/runtime-examiner.ts';
import { stuckWorkExaminer } from './doctor/stuck-work.ts';
import { storedParts } from './doctor/stored-parts.ts';
import type { ContainerEvents } from './events/container-events.ts';
import { layGroundwork, type Groundwork, type RuntimeDeps } from './groundwork.ts';
import { openHost, type Host } from './host.ts';
import { createImageService } from './image/image-service.ts';
import type { ImageStore } from './image/image-store.ts';
import { createInspector } from './inspector/runtime-inspector.ts';
import { openKernelCalls } from './kernel-calls.ts';
import { makeParts } from './make-parts.ts';
import { Iptables } from './network/iptables.ts';
import { takeDownLost } from './network/lost-connection.ts';
import type { PodNetwork } from './network/pod-network.ts';
import { openDiskUse, openMeters } from './open-meters.ts';
import { openStorage, type Storage } from './open-storage.ts';
import { openStreaming, type Streaming } from './open-streaming.ts';
import { findOrphanCgroups, findOrphans } from './recovery/orphans.ts';
import { lostObjects, tellLost, type LostObjects } from './recovery/tell-lost.ts';
import { createRuntimeService } from './runtime-service.ts';
import type { RuntimeSettings } from './settings.ts';
import type { Meters } from './stats/meters.ts';
import { createStatsCalls, type StatsCalls } from './stats-calls.ts';
import { parseOwner } from './store/owners.ts';

export interface Runtime {
  readonly runtime: RuntimeService & StatsCalls;
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

const DISCONNECT_MS = 45_000;
const NOTHING_LOST: LostObjects = { sandboxes: new Set(), containers: new Set() };

/** The runtime in its parts, before anybody may ask it. */
interface ToServe {
  readonly startedAtWallMs: number;
  readonly deps: RuntimeDeps;
  readonly ground: Groundwork;
  readonly host: Host;
  readonly storage: Storage;
  readonly networks: PodNetwork;
  readonly rt: RuntimeContext;
  readonly streaming: Streaming;
  readonly meters: Meters;
  readonly recovered: Promise<void>;
}

/**
 * Opens the stores, finds the parts, and wires them. Returns when every question can be answered from the records; what has to be
 * brought in line with the world follows in the background (`recovered`).
 * Throws FailedPrecondition, in one line that says what to do, when a part of the host is missing.
 */
export async function createRuntime(settings: RuntimeSettings, deps: RuntimeDeps): Promise<Runtime> {
  const startedAtWallMs = deps.clock.wallMs();
  const closing = new AbortController();

  const ground = await layGroundwork(settings, deps, closing.signal);
  const hadRecords = await isThere(ground.paths.database);
  const host = await openHost(ground.background, settings, deps.clock, hadRecords);
  const kernel = openKernelCalls(ground);
  const storage = await openStorage(ground, deps, kernel);
  const made = makeParts(ground, host, kernel, storage);
  const { networks } = made;
  const assembled = assembleRuntime(made.parts);
  const streaming = await openStreaming(assembled.rt, settings.streamingAddress);

  // Before they are released.
  const lost = hadRecords ? NOTHING_LOST : await findLost(ground, storage, assembled.rt);
  const tookUp = await assembled.takeUp(() => storage.snapshots.list(), deps.serving);
  const recovered = recoverTheRest({ objectsRecovered: tookUp.recovered, lost }, ground, storage, networks);

  const meters = openMeters(ground, host, kernel, storage);
  meters.start();

  return {
    ...serve({
      startedAtWallMs,
      deps,
      ground,
      host,
      storage,
      networks,
      rt: assembled.rt,
      streaming,
      meters,
      recovered,
    }),
    close: async () => {
      closing.abort(canceled('gantryd is stopping'));
      await streaming.close();
      meters.close();
      const ended = assembled.close();
      const undone = networks.close();
      storage.images.close();
      await ended;
      await undone;
      made.close();
      kernel.close();
      await storage.close();
    },
  };
}

/** What belongs to no single object: the network and the images, once every object has been looked at. Never rejects. */
async function recoverTheRest(
  { objectsRecovered, lost }: { readonly objectsRecovered: Promise<void>; readonly lost: LostObjects },
  ground: Groundwork,
  { sandboxes, ledger, images }: Storage,
  networks: PodNetwork,
): Promise<void> {
  const { log, faults, background } = ground;
  try {
    await objectsRecovered;
    await disconnectLost(ground, lost);
    await networks.giveBackStrays((id) => sandboxes.get(id) !== undefined || ownsAny(ledger, id));
    await networks.repair(background);
    networks.start();
    await faults.reach('recovery/network-repaired');
    await images.sweep(background);
    await faults.reach('recovery/images-swept');
  } catch (error) {
    log.error({ error: messageOf(error) }, 'recovery was not finished');
  }
}

/** What is left of objects that were in a database that is not there any more. A machine on which nothing was yet has none. */
async function findLost(
  { log, journal, paths }: Groundwork,
  storage: Storage,
  rt: RuntimeContext,
): Promise<LostObjects> {
  const orphans = [...(await findOrphans(rt, () => storage.snapshots.list())), ...(await findOrphanCgroups(rt))];
  const lost = lostObjects(orphans);
  await tellLost({ log, journal, path: paths.database }, lost, storage.layers.list().length);
  return lost;
}

/** Side by side: a plug-in that hangs keeps nobody longer than its time. Never rejects. */
async function disconnectLost({ settings, clock, background }: Groundwork, { sandboxes }: LostObjects): Promise<void> {
  const deps = { confDir: settings.cniConfDir, binDirs: settings.cniBinDirs };
  const one = async (sandboxId: string): Promise<void> => {
    try {
      const what = `disconnect lost sandbox ${sandboxId}`;
      await withDeadline(background, clock, DISCONNECT_MS, what, (op) => takeDownLost(op, deps, sandboxId));
    } catch (error) {
      background.log.warn({ sandboxId, error: messageOf(error) }, 'a lost sandbox may still be connected');
    }
  };
  await Promise.all([...sandboxes].map(one));
}

/** A sandbox can be gone while its disconnecting is still to be done. */
function ownsAny(ledger: Ledger, id: string): boolean {
  return ledger.owners().some((owner) => parseOwner(owner)?.id === id);
}

/** The services, over what was assembled. */
function serve({
  startedAtWallMs,
  deps,
  ground,
  host,
  storage,
  networks,
  rt,
  streaming,
  meters,
  recovered,
}: ToServe): Omit<Runtime, 'close'> {
  const { images, layers, snapshots } = storage;
  const diskUse = openDiskUse(ground, storage, meters);
  const runtime = { ...createRuntimeService(rt), ...streaming.calls, ...createStatsCalls({ rt, meters }) };
  const chosen = host.handlers.default?.runtime;
  const ociRuntime = chosen === undefined ? 'none that works' : `${chosen.name} (${chosen.path})`;
  const examiner = runtimeExaminer({
    rt,
    iptables: new Iptables(),
    storage: storedParts(images, layers, snapshots),
    units: host.units,
    repairNetwork: (op) => networks.repair(op),
  });
  return {
    runtime: { ...runtime, ...runtimeStreams(runtime) },
    image: createImageService({
      images,
      runtimeHandlers: () => rt.handlers.working.map(({ runtime }) => runtime.name),
      diskUse: (op) => diskUse.look(op),
    }),
    images,
    stop: (op, order) => stopAsOrdered(op, rt, order),
    events: rt.events,
    inspector: createInspector({
      rt,
      journal: ground.journal,
      images,
      ociRuntime,
      startedAtWallMs,
      recovered,
      examiners: () => [examiner, stuckWorkExaminer(rt), roomExaminer(ground.room), ...(deps.otherExaminers?.() ?? [])],
    }),
    ociRuntime,
    notices: rt.notices,
    recovered,
  };
}
