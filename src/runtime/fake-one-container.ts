import { ContainerConfig, PodSandboxConfig } from '../cri/gen/api.ts';
import type { JournalInput } from '../journal/journal.ts';
import type { Op } from '../lib/abort.ts';
import { CLEANUP_BACKOFF } from '../lib/backoff.ts';
import { GantryError } from '../lib/errors.ts';
import { FakeClock } from '../lib/fake-clock.ts';
import { NO_FAULTS } from '../lib/fault-points.ts';
import { Lanes } from '../lib/lane.ts';
import { silentLog } from '../lib/log.ts';
import { RetryQueue } from '../lib/retry-queue.ts';
import { SingleFlight } from '../lib/single-flight.ts';
import type { Database } from '../lib/store/store-thread.ts';
import { newContainerStatus, transition, type ContainerEvent, type ContainerStatus } from './container/state.ts';
import { StopDriver } from './container/stop-driver.ts';
import type { RuntimeContext } from './context.ts';
import { cleanupName, type CleanupEvent } from './events/cleanup-event.ts';
import { NameReservations } from './names/name-reservations.ts';
import { newSandboxStatus, transition as sandboxTransition } from './sandbox/state.ts';
import { CONTAINER_CODEC } from './store/container-record.ts';
import { RecordStore } from './store/record-store.ts';
import { SANDBOX_CODEC } from './store/sandbox-record.ts';
import { FAKE_TASK } from './task/fake-task.ts';
import type { Task } from './task/task.ts';

export const BOOT = 'this-boot';
export const ID = 'c'.repeat(64);
export const SANDBOX = 'd'.repeat(64);

export const TASK: Task = { ...FAKE_TASK, id: ID };

const RUNNING: readonly ContainerEvent[] = [
  { kind: 'created' },
  { kind: 'start-intended', intent: { phase: 'preparing', bootId: BOOT, sinceWallMs: 10 } },
  { kind: 'task-made', task: TASK, user: { uid: 0, gid: 0, additionalGids: [] } },
  { kind: 'task-released' },
  { kind: 'started', startedAtWallMs: 20 },
];

/** What the world does when it is asked; a test replaces what it is about. */
export interface FakeWorld {
  signal: (signal: number) => Promise<boolean>;
  thaw: () => Promise<void>;
  killAll: () => Promise<void>;
  alive: (pid: number) => Promise<boolean>;
  /** In its cgroup. */
  procs: () => Promise<number[]>;
  describe: (pids: readonly number[]) => Promise<string>;
  readExit: () => Promise<{ code: number; writtenAtWallMs: number } | undefined>;
  /** The OCI runtime's word. */
  ociState: () => Promise<{ status: string } | undefined>;
  cleanUp: (event: CleanupEvent, op: Op, id: string) => Promise<void>;
}

export interface OneContainer {
  readonly rt: RuntimeContext;
  readonly clock: FakeClock;
  readonly world: FakeWorld;
  /** `signal 15`, `kill all`, `thaw`, `clean up`, `arm` … with the time in milliseconds at which it was done. */
  readonly done: (readonly [what: string, atMs: number])[];
  readonly journal: JournalInput[];
  /** Writes to the disk wait from now on until the returned function is called. */
  readonly holdDisk: () => () => void;
  /** Writes to the disk fail from now on until the returned function is called. */
  readonly fillDisk: () => () => void;
}

/**
 * The runtime's own machinery around one container, on a clock and a world that a test moves. It runs, or has only come so far: 1 CREATED,
 * 2 its start is written down, 3 its task is made, 4 its command was let go. Or it is as it was left.
 */
export async function oneContainer(so: number | ContainerStatus = RUNNING.length): Promise<OneContainer> {
  const clock = new FakeClock();
  const done: [string, number][] = [];
  const journal: JournalInput[] = [];
  const note = (what: string): void => void done.push([what, clock.monotonicMs()]);
  const { db, holdDisk, fillDisk } = fakeDisk();
  const world = quietWorld();
  const parts = {
    clock,
    log: silentLog,
    journal: { record: (entry: JournalInput) => void journal.push(entry) },
    bootId: BOOT,
    background: { signal: new AbortController().signal, log: silentLog },
    faults: NO_FAULTS,
    ...(await storesWithOne(db, clock, so)),
    answered: new Set<string>(),
    sandboxNames: new NameReservations<string>('sandbox'),
    containerNames: new NameReservations<string>('container'),
    lanes: new Lanes(clock, silentLog),
    retries: retriesOf(clock, note, world),
    cleanups: new SingleFlight(),
    followUps: new SingleFlight(),
    removals: new SingleFlight(),
    sandboxStops: new SingleFlight(),
    stops: new StopDriver(clock),
    ...outside(note, world),
  };
  // What is not here is not asked for by what these tests are about.
  return { rt: parts as unknown as RuntimeContext, clock, world, done, journal, holdDisk, fillDisk };
}

function fakeDisk(): { readonly db: Database } & Pick<OneContainer, 'holdDisk' | 'fillDisk'> {
  const disk = { full: false, gate: Promise.resolve() };
  return {
    db: {
      write: async () => {
        await disk.gate;
        if (disk.full) throw new GantryError('ResourceExhausted', 'the disk is full');
      },
      read: () => Promise.resolve([]),
      close: () => Promise.resolve(),
    },
    holdDisk: () => {
      const { promise, resolve } = Promise.withResolvers<undefined>();
      disk.gate = promise.then(() => undefined);
      return () => {
        disk.gate = Promise.resolve();
        resolve(undefined);
      };
    },
    fillDisk: () => {
      disk.full = true;
      return () => {
        disk.full = false;
      };
    },
  };
}

async function storesWithOne(
  db: Database,
  clock: FakeClock,
  so: number | ContainerStatus,
): Promise<Pick<RuntimeContext, 'sandboxes' | 'containers'>> {
  const containers = await RecordStore.open({ db, clock, log: silentLog }, CONTAINER_CODEC);
  const sandboxes = await RecordStore.open({ db, clock, log: silentLog }, SANDBOX_CODEC);
  await sandboxes.insert(
    {
      id: SANDBOX,
      config: PodSandboxConfig.fromPartial({ metadata: { name: 'pod', namespace: 'default', uid: 'u', attempt: 0 } }),
      facts: {
        name: 'pod',
        runtimeHandler: '',
        namespaces: { network: 'host', uts: 'host', ipc: 'host', pid: 'pod' },
        hostname: 'h',
        cgroupPath: '/p',
      },
    },
    sandboxTransition(newSandboxStatus(1, BOOT), { kind: 'ready' }),
  );
  await containers.insert(
    {
      id: ID,
      config: ContainerConfig.fromPartial({ metadata: { name: 'main', attempt: 0 } }),
      facts: {
        name: 'main',
        sandboxId: SANDBOX,
        image: { id: 'i', shown: 'i', ref: 'i', diffIds: [] },
        stopSignal: 15,
        cgroupPath: '/g',
      },
    },
    typeof so === 'number' ? RUNNING.slice(0, so).reduce(transition, newContainerStatus(1)) : so,
  );
  return { sandboxes, containers };
}

function quietWorld(): FakeWorld {
  return {
    signal: () => Promise.resolve(true),
    thaw: () => Promise.resolve(),
    killAll: () => Promise.resolve(),
    alive: () => Promise.resolve(true),
    procs: () => Promise.resolve([TASK.pid]),
    describe: (pids) =>
      Promise.resolve(pids.map((pid) => `pid ${String(pid)} (sleep) in state D, waiting in nfs`).join('; ')),
    readExit: () => Promise.resolve(undefined),
    ociState: () => Promise.resolve({ status: 'running' }),
    cleanUp: () => Promise.resolve(),
  };
}

function retriesOf(clock: FakeClock, note: (what: string) => void, world: FakeWorld): RetryQueue<CleanupEvent> {
  return new RetryQueue<CleanupEvent>({
    clock,
    log: silentLog,
    policy: CLEANUP_BACKOFF,
    attemptTimeoutMs: 10_000,
    nameOf: cleanupName,
    handle: (op, id, event) => {
      note(cleanupName(event));
      return world.cleanUp(event, op, id);
    },
  });
}

/** What the runtime asks outside its process. */
function outside(note: (what: string) => void, world: FakeWorld): object {
  return {
    ledger: {
      entriesOf: () => [{ kind: 'task', key: ID }],
      damaged: [],
      intend: () => Promise.resolve(),
      restore: () => Promise.resolve([]),
      release: () => {
        note('release');
        return Promise.resolve([]);
      },
    },
    exits: {
      arm: () => note('arm'),
      letGo: () => note('let go'),
      look: () => note('look'),
    },
    tasks: {
      signal: (_op: unknown, _task: unknown, signal: number) => {
        note(`signal ${String(signal)}`);
        return world.signal(signal);
      },
      readExit: () => world.readExit(),
      state: () => world.ociState(),
      forgetExit: () => {
        note('forget exit');
        return Promise.resolve();
      },
    },
    cgroups: {
      thaw: () => {
        note('thaw');
        return world.thaw();
      },
      killAll: () => {
        note('kill all');
        return world.killAll();
      },
      procs: () => world.procs(),
      children: () => Promise.resolve([]),
    },
    settings: { cgroupParent: '/gantry' },
    processes: {
      alive: (pid: number) => world.alive(pid),
      describe: (pids: readonly number[]) => world.describe(pids),
    },
    specs: { taskTraces: () => ({}) },
    paths: { container: () => ({ bundle: '/b', rootfs: '/b/rootfs' }), containers: '/' },
  };
}
