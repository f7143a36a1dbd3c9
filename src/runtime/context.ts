import type { JournalWriter } from '../journal/journal.ts';
import type { Op } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import type { FaultPoints } from '../lib/fault-points.ts';
import type { Lanes } from '../lib/lane.ts';
import type { Ledger, Releasers } from '../lib/ledger.ts';
import type { Log } from '../lib/log.ts';
import type { RetryQueue } from '../lib/retry-queue.ts';
import type { Room } from '../lib/store/disk-room.ts';
import type { RuntimeSettings } from './settings.ts';
import type { CleanupEvent } from './events/cleanup-event.ts';
import type { ContainerEvents } from './events/container-events.ts';
import type { ExitMonitors } from './events/exit-monitors.ts';
import type { NameReservations } from './names/name-reservations.ts';
import type { SingleFlight } from '../lib/single-flight.ts';
import type { StopDriver } from './container/stop-driver.ts';
import type { ToldStarts } from './container/told-starts.ts';
import type { Specs } from './container/spec-builder.ts';
import type {
  CgroupTree,
  ContainerSnapshots,
  Folders,
  ImageLookup,
  MountPoints,
  NamespacePins,
  PodSockets,
  ProcessLook,
  SandboxNetworks,
  TreeRemover,
} from './parts.ts';
import type { Handlers } from './oci/runtime-handlers.ts';
import type { InfraTasks } from './sandbox/infra-task.ts';
import type { ContainerStore } from './store/container-record.ts';
import type { RuntimePaths } from './store/paths.ts';
import type { SandboxStore } from './store/sandbox-record.ts';
import type { Tasks } from './task/task-service.ts';

/** What every verb works with. Made once, in `assemble-runtime.ts`. */
export interface RuntimeContext {
  readonly settings: RuntimeSettings;
  readonly paths: RuntimePaths;
  readonly clock: Clock;
  readonly log: Log;
  readonly journal: JournalWriter;
  readonly bootId: string;
  /** For work that nobody waits for any more: ends when the daemon does. */
  readonly background: Op;
  /** Where tests interfere; nothing happens there in a normal run. */
  readonly faults: FaultPoints;

  /** On the disk of the root folder: without it nothing new is made. */
  readonly room: Room;

  /** What this host cannot do that a pod may ask for, in one line each. */
  readonly notices: readonly string[];

  /** The OCI runtimes that new sandboxes can be made with. */
  readonly handlers: Handlers;

  readonly sandboxes: SandboxStore;
  readonly containers: ContainerStore;
  /** What happens to both, for whoever listens. */
  readonly events: ContainerEvents;
  readonly sandboxNames: NameReservations<string>;
  readonly containerNames: NameReservations<string>;
  /** Ids whose maker has surely been answered: a repeated call is a new one then. */
  readonly answered: Set<string>;
  readonly toldStarts: ToldStarts;

  readonly ledger: Ledger;
  readonly releasers: Releasers;
  readonly lanes: Lanes;
  readonly retries: RetryQueue<CleanupEvent>;
  /** Cleanups that run now, by container id: one at a time each. */
  readonly cleanups: SingleFlight;
  /** Roll-backs, recoveries and releases of leftovers that are tried again, by what they are and whose. */
  readonly followUps: SingleFlight;
  /** Checkpoints that are made now, by container and place. */
  readonly checkpoints: SingleFlight;
  /** The folders that they are made in: others of a container are an earlier daemon's. */
  readonly checkpointFolders: Set<string>;
  /** Starts that run now, by container id. */
  readonly starts: SingleFlight;
  readonly removals: SingleFlight;
  readonly sandboxStops: SingleFlight;
  readonly stops: StopDriver;

  readonly tasks: Tasks;
  readonly exits: ExitMonitors;
  readonly specs: Specs;
  readonly infra: InfraTasks;
  readonly images: ImageLookup;
  readonly snapshots: ContainerSnapshots;
  readonly networks: SandboxNetworks;
  readonly namespaces: NamespacePins;
  readonly podSockets: PodSockets;
  readonly mounts: MountPoints;
  readonly cgroups: CgroupTree;
  readonly folders: Folders;
  readonly trees: TreeRemover;
  readonly processes: ProcessLook;
}
