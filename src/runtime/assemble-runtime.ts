import { withDeadline } from '../lib/abort.ts';
import { CLEANUP_BACKOFF } from '../lib/backoff.ts';
import { messageOf } from '../lib/errors.ts';
import { Lanes } from '../lib/lane.ts';
import type { Releasers } from '../lib/ledger.ts';
import { withFaults } from '../lib/release-faults.ts';
import { RetryQueue } from '../lib/retry-queue.ts';
import { SingleFlight } from '../lib/single-flight.ts';
import { noteTold } from './container/start-container.ts';
import { StopDriver } from './container/stop-driver.ts';
import { ToldStarts } from './container/told-starts.ts';
import type { RuntimeContext } from './context.ts';
import { cleanupName, goesFirst, type CleanupEvent } from './events/cleanup-event.ts';
import { ContainerEvents } from './events/container-events.ts';
import { ExitMonitors } from './events/exit-monitors.ts';
import { handleCleanup } from './events/handle-cleanup.ts';
import { correctExit, recordExit } from './events/record-exit.ts';
import { MonitorLook } from './events/monitor-look.ts';
import { SandboxLook } from './events/sandbox-look.ts';
import { NameReservations } from './names/name-reservations.ts';
import { findOrphans } from './recovery/orphans.ts';
import { recover } from './recovery/recover.ts';
import { releaseTable } from './release-table.ts';
import { ExitWatcher } from './task/exit-watcher.ts';
import type { ExitWatcherDeps } from './task/watched-task.ts';

/** One event in the queue (BEHAVIOUR.md C1); what it started goes on, and the next attempt joins it. */
const ATTEMPT_TIMEOUT_MS = 10_000;
/** A command in state D must not keep the daemon from serving. */
const SWEEP_EXECS_MS = 10_000;

/** What is made here and not handed in. */
type Made =
  | 'events'
  | 'sandboxNames'
  | 'containerNames'
  | 'answered'
  | 'toldStarts'
  | 'releasers'
  | 'lanes'
  | 'retries'
  | 'cleanups'
  | 'followUps'
  | 'checkpoints'
  | 'checkpointFolders'
  | 'starts'
  | 'removals'
  | 'sandboxStops'
  | 'stops'
  | 'exits';

/** The stores, and all that reaches outside the process. */
export type RuntimeParts = Omit<RuntimeContext, Made> & {
  readonly exitSources: Pick<ExitWatcherDeps, 'processes' | 'exits' | 'oomKillCount' | 'logLoss'>;
  /** For what the network holds for itself. */
  readonly networkReleasers: Releasers;
};

export interface AssembledRuntime {
  readonly rt: RuntimeContext;
  /**
   * Takes up what an earlier process left. Returns when the first new object may be made; `recovered` is fulfilled when every object has
   * been looked at, which begins when `serving` is fulfilled, and rejected when that could not be finished.
   */
  takeUp(snapshotIds: () => Promise<string[]>, serving?: Promise<void>): Promise<{ readonly recovered: Promise<void> }>;
  /** Nothing is begun any more. Pods go on running. */
  close(): Promise<void>;
}

/** Ties lanes, back-off, exit monitors and verbs together over the parts that were handed in, whatever these are. */
export function assembleRuntime(all: RuntimeParts): AssembledRuntime {
  const { rt, exits } = assembleContext(all);
  const looks = [new SandboxLook(rt), new MonitorLook(rt)];
  return {
    rt,
    takeUp: async (snapshotIds, serving) => {
      takeNames(rt);
      await rt.faults.reach('recovery/opened');
      await sweepExecs(rt);
      await rt.faults.reach('recovery/execs-ended');
      const orphans = await findOrphans(rt, snapshotIds);
      await rt.faults.reach('recovery/orphans-found');
      await exits.start();
      for (const look of looks) look.start();
      return { recovered: recover(rt, orphans, serving) };
    },
    close: async () => {
      for (const look of looks) look.close();
      rt.events.close();
      rt.stops.close();
      rt.toldStarts.close();
      rt.retries.close();
      rt.sandboxes.close();
      rt.containers.close();
      await exits.close();
    },
  };
}

function assembleContext({ exitSources, networkReleasers, ...parts }: RuntimeParts): {
  readonly rt: RuntimeContext;
  readonly exits: ExitWatcher;
} {
  const { clock, log, faults, sandboxes, containers } = parts;
  const lanes = new Lanes(clock, log);
  const exits: ExitWatcher = new ExitWatcher({
    clock,
    log,
    ...exitSources,
    onExit: (id, exit) => recordExit(rt, id, exit),
    onCorrection: (id, exit) => correctExit(rt, id, exit),
  });
  const rt: RuntimeContext = {
    ...parts,
    events: new ContainerEvents({ sandboxes, containers, clock }),
    sandboxNames: new NameReservations<string>('sandbox'),
    containerNames: new NameReservations<string>('container'),
    answered: new Set(),
    toldStarts: new ToldStarts(clock, (id) => noteTold(rt, id)),
    releasers: { ...withFaults(releaseTable({ ...parts, lanes }), faults), ...networkReleasers },
    lanes,
    retries: new RetryQueue<CleanupEvent>({
      clock,
      log,
      policy: CLEANUP_BACKOFF,
      attemptTimeoutMs: ATTEMPT_TIMEOUT_MS,
      nameOf: cleanupName,
      goesFirst,
      handle: (op, id, event) => handleCleanup(op, rt, id, event),
    }),
    cleanups: new SingleFlight(),
    followUps: new SingleFlight(),
    checkpoints: new SingleFlight(),
    checkpointFolders: new Set(),
    starts: new SingleFlight(),
    removals: new SingleFlight(),
    sandboxStops: new SingleFlight(),
    stops: new StopDriver(clock),
    exits: new ExitMonitors(exits),
  };
  return { rt, exits };
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

/** Before anything can be executed: whoever waited for these has gone with the earlier process. */
async function sweepExecs({ background, clock, log, tasks }: RuntimeContext): Promise<void> {
  try {
    await withDeadline(background, clock, SWEEP_EXECS_MS, 'end abandoned execs', (op) => tasks.sweepExecs(op));
  } catch (error) {
    log.warn({ error: messageOf(error) }, 'what an earlier process was executing may still run');
  }
}
