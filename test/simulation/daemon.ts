import type { RuntimeService } from '../../src/cri/services.ts';
import type { JournalInput } from '../../src/journal/journal.ts';
import { messageOf, unavailable } from '../../src/lib/errors.ts';
import type { FaultPoint } from '../../src/lib/fault-points.ts';
import { Ledger } from '../../src/lib/ledger.ts';
import type { Log } from '../../src/lib/log.ts';
import { AMPLE_ROOM } from '../../src/lib/store/disk-room.ts';
import { assembleRuntime } from '../../src/runtime/assemble-runtime.ts';
import type { RuntimeContext } from '../../src/runtime/context.ts';
import { createRuntimeService } from '../../src/runtime/runtime-service.ts';
import type { RuntimeSettings } from '../../src/runtime/settings.ts';
import { CONTAINER_CODEC } from '../../src/runtime/store/container-record.ts';
import { RuntimePaths } from '../../src/runtime/store/paths.ts';
import { RecordStore } from '../../src/runtime/store/record-store.ts';
import { SANDBOX_CODEC } from '../../src/runtime/store/sandbox-record.ts';
import type { Random } from '../soak/random.ts';
import type { Life, Schedule } from './schedule.ts';
import type { SimDisk } from './sim-disk.ts';
import { simulatedParts } from './simulated-parts.ts';
import { simulatedTasks } from './simulated-tasks.ts';
import type { World } from './world.ts';

export const SIM_SETTINGS: RuntimeSettings = {
  root: '/sim/lib',
  state: '/sim/run',
  netnsDir: '/sim/netns',
  instance: 'sim',
  cgroupParent: '/gantry-sim',
  ociRuntime: 'crun',
  cniConfDir: '/sim/cni',
  cniBinDirs: [],
  registryConfigDir: '/sim/certs.d',
  cdiSpecDirs: [],
  defaultNetwork: false,
  streamingAddress: '127.0.0.1:0',
  version: 'simulated',
};

export interface DaemonDeps {
  readonly world: World;
  readonly schedule: Schedule;
  readonly random: Random;
  readonly durable: SimDisk;
  readonly volatile: SimDisk;
  /** A step of the daemon at which it dies, on a whim. */
  readonly diesAt: (point: FaultPoint) => boolean;
  readonly observer: DaemonObserver;
  readonly log: Log;
}

/** Who looks over the daemon's shoulder. */
export interface DaemonObserver {
  opened(rt: RuntimeContext, life: Life): void;
  journal(life: Life, entry: JournalInput): void;
  deleting(rt: RuntimeContext, id: string): void;
  failed(what: string): void;
}

/** The real runtime, started anew whenever it was killed, over a simulated machine. */
export class Daemon {
  readonly #deps: DaemonDeps;
  #lives = 0;
  #life: Life | undefined;
  #service: RuntimeService | undefined;
  #died = Promise.withResolvers<never>();
  rt: RuntimeContext | undefined;
  /** Everything that the earlier process left has been looked at. */
  recoveredAtMs: number | undefined;

  constructor(deps: DaemonDeps) {
    this.#deps = deps;
  }

  get life(): Life | undefined {
    return this.#life;
  }

  /** Which process this is, to see whether one call was served by one. */
  get number(): number {
    return this.#lives;
  }

  start(): void {
    const life: Life = { number: ++this.#lives, dead: false };
    this.#life = life;
    this.#died = Promise.withResolvers<never>();
    this.#died.promise.catch(() => undefined);
    this.#open(life).catch((error: unknown) => this.#deps.observer.failed(`start: ${messageOf(error)}`));
  }

  kill(): void {
    if (this.#life === undefined) return;
    this.#deps.schedule.kill(this.#life);
    this.#life = undefined;
    this.#service = undefined;
    this.rt = undefined;
    this.recoveredAtMs = undefined;
    this.#died.reject(unavailable('the connection was lost'));
  }

  #isNow(life: Life): boolean {
    return this.#life === life;
  }

  /** One call of a client. Unavailable when there is no daemon, or when it dies meanwhile. */
  async call<T>(make: (service: RuntimeService) => Promise<T>): Promise<T> {
    if (this.#service === undefined) throw unavailable('gantryd is not there');
    return await Promise.race([make(this.#service), this.#died.promise]);
  }

  async #open(life: Life): Promise<void> {
    const { world, schedule, durable, volatile, observer, random } = this.#deps;
    const clock = schedule.clockOf(life);
    const { log } = this.#deps;
    const paths = new RuntimePaths(SIM_SETTINGS.root, SIM_SETTINGS.state);
    const db = durable.connect(schedule, life);
    const storeDeps = { db, clock, log };
    const ledger = await Ledger.open(clock, db, volatile.connect(schedule, life));
    const sandboxes = await RecordStore.open(storeDeps, SANDBOX_CODEC);
    const containers = await RecordStore.open(storeDeps, CONTAINER_CODEC);
    const diesAt = (point: FaultPoint): boolean => {
      if (life.dead || !this.#deps.diesAt(point)) return false;
      this.kill();
      return true;
    };
    const assembled = assembleRuntime({
      settings: SIM_SETTINGS,
      paths,
      clock,
      log,
      journal: { record: (entry) => (life.dead ? undefined : observer.journal(life, entry)) },
      bootId: world.bootId,
      background: { signal: new AbortController().signal, log },
      faults: {
        // Dead: never comes back. Else now and then a pause, so that others come in between.
        reach: (point) =>
          diesAt(point) || random.chance(0.1)
            ? schedule.ask(life, { what: point, subject: '' }, () => undefined)
            : undefined,
        pass: (point) => void diesAt(point),
      },
      room: AMPLE_ROOM,
      notices: [],
      sandboxes,
      containers,
      ledger,
      tasks: simulatedTasks({ world, schedule, life, clock }, (id) => observer.deleting(assembled.rt, id)),
      networkReleasers: {},
      ...simulatedParts({ world, schedule, life, clock, paths }),
    });
    observer.opened(assembled.rt, life);
    const { recovered } = await assembled.takeUp(() =>
      schedule.ask(life, { what: 'look', subject: '' }, () => [...world.snapshots]),
    );
    // It may have died at the last step.
    if (!this.#isNow(life)) return;
    this.#service = createRuntimeService(assembled.rt);
    this.rt = assembled.rt;
    await recovered;
    if (this.#isNow(life)) this.recoveredAtMs = schedule.nowMs;
  }
}
