import type { Inspector } from '../cri/inspector/inspector.ts';
import type { ImageService, RuntimeService } from '../cri/services.ts';
import type { Op } from '../lib/abort.ts';
import { canceled, messageOf } from '../lib/errors.ts';
import type { Ledger } from '../lib/ledger.ts';
import { assembleRuntime } from './assemble-runtime.ts';
import { stopAsOrdered, type StopOrder } from './container/stop-container.ts';
import type { RuntimeContext } from './context.ts';
import { roomExaminer } from './doctor/room-examiner.ts';
import { runtimeExaminer } from './doctor/runtime-examiner.ts';
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
import type { PodNetwork } from './network/pod-network.ts';
import { openStorage, type Storage } from './open-storage.ts';
import { createRuntimeService } from './runtime-service.ts';
import type { RuntimeSettings } from './settings.ts';
import { parseOwner } from './store/owners.ts';

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

/** The runtime in its parts, before anybody may ask it. */
interface ToServe {
  readonly startedAtWallMs: number;
  readonly deps: RuntimeDeps;
  readonly ground: Groundwork;
  readonly host: Host;
  readonly storage: Storage;
  readonly networks: PodNetwork;
  readonly rt: RuntimeContext;
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
  const host = await openHost(ground.background, settings, deps.clock);
  const kernel = openKernelCalls(ground);
  const storage = await openStorage(ground, deps, kernel);
  const made = makeParts(ground, host, kernel, storage);
  const { networks } = made;
  const assembled = assembleRuntime(made.parts);

  const tookUp = await assembled.takeUp(() => storage.snapshots.list());
  const recovered = recoverTheRest(tookUp.recovered, ground, storage, networks);

  return {
    ...serve({ startedAtWallMs, deps, ground, host, storage, networks, rt: assembled.rt, recovered }),
    close: async () => {
      closing.abort(canceled('gantryd is stopping'));
      const ended = assembled.close();
      networks.close();
      storage.images.close();
      await ended;
      made.close();
      kernel.close();
      await storage.close();
    },
  };
}

/** What belongs to no single object: the network and the images, once every object has been looked at. Never rejects. */
async function recoverTheRest(
  objectsRecovered: Promise<void>,
  { log, faults, background }: Groundwork,
  { sandboxes, ledger, images }: Storage,
  networks: PodNetwork,
): Promise<void> {
  try {
    await objectsRecovered;
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
  recovered,
}: ToServe): Omit<Runtime, 'close'> {
  const { images, layers, snapshots } = storage;
  const { runtime: chosen } = host.probed;
  const ociRuntime = `${chosen.name} (${chosen.path})`;
  const examiner = runtimeExaminer({
    rt,
    iptables: new Iptables(),
    storage: storedParts(images, layers, snapshots),
    ociRuntime: chosen,
    repairNetwork: (op) => networks.repair(op),
  });
  return {
    runtime: createRuntimeService(rt),
    image: createImageService({ images }),
    images,
    stop: (op, order) => stopAsOrdered(op, rt, order),
    events: rt.events,
    inspector: createInspector({
      rt,
      journal: ground.journal,
      ociRuntime,
      startedAtWallMs,
      recovered,
      examiners: () => [examiner, roomExaminer(ground.room), ...(deps.otherExaminers?.() ?? [])],
    }),
    ociRuntime,
    notices: rt.notices,
    recovered,
  };
}
