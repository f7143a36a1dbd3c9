import { silentLog, type Log } from '../../src/lib/log.ts';
import { DURABLE_SCHEMA, VOLATILE_SCHEMA } from '../../src/runtime/store/schema.ts';
import { Random } from '../soak/random.ts';
import { Daemon, SIM_SETTINGS } from './daemon.ts';
import { makeSandbox } from './make-sandbox.ts';
import { Schedule } from './schedule.ts';
import { SimDisk } from './sim-disk.ts';
import { Troubles } from './troubles.ts';
import { Verdict } from './verdict.ts';
import { Workload } from './workload.ts';
import { World } from './world.ts';

export interface Outcome {
  readonly seed: number;
  /** Empty: all that must hold has held. */
  readonly violations: readonly string[];
  readonly steps: number;
  readonly lives: number;
  readonly trace: readonly string[];
}

/** Time after which everything has to be over once nothing goes wrong any more: the longest pause of the back-off, twice. */
const OVER_MS = 700_000;
const TROUBLE_MS = 25_000;

/** One run: containers live and end while things go wrong, then all is well again and has to come to its end. */
export async function simulate(seed: number, traced = false): Promise<Outcome> {
  return await new Simulation(seed, traced).run();
}

class Simulation {
  readonly #seed: number;
  readonly #random: Random;
  readonly #trace: string[] = [];
  readonly #traced: boolean;
  readonly #troubles: Troubles;
  readonly #schedule: Schedule;
  readonly #world: World;
  readonly #durable = new SimDisk('durable', DURABLE_SCHEMA);
  readonly #volatile = new SimDisk('volatile', VOLATILE_SCHEMA);
  readonly #verdict: Verdict;
  readonly #daemon: Daemon;
  #deaths: number;
  #steps = 0;
  #ended = false;

  constructor(seed: number, traced: boolean) {
    this.#seed = seed;
    this.#traced = traced;
    this.#random = new Random(seed);
    this.#troubles = new Troubles(this.#random.fork(), () => this.#schedule.nowMs);
    this.#schedule = new Schedule({
      random: this.#random.fork(),
      decide: (asked) => this.#troubles.decide(asked),
      fail: (asked) => this.#troubles.fail(asked),
      trace: (line) => this.#note(line),
    });
    this.#world = new World(this.#schedule, this.#random.fork(), (id) => this.#troubles.temperOf(id));
    this.#deaths = this.#random.pick([0, 1, 2, 4]);
    this.#verdict = new Verdict({
      world: this.#world,
      schedule: this.#schedule,
      troubles: this.#troubles,
      daemon: () => this.#daemon,
    });
    const whim = this.#random.fork();
    this.#daemon = new Daemon({
      world: this.#world,
      schedule: this.#schedule,
      random: this.#random.fork(),
      durable: this.#durable,
      volatile: this.#volatile,
      observer: this.#verdict,
      log: traced ? this.#log() : silentLog,
      diesAt: (point) => {
        if (this.#deaths === 0 || !whim.chance(0.01)) return false;
        this.#note(() => `gantryd dies at ${point}`);
        this.#deaths--;
        this.#comeBack();
        return true;
      },
    });
  }

  async run(): Promise<Outcome> {
    const sandboxes = Array.from({ length: this.#random.between(1, 2) }, (_, index) => String(index + 1).repeat(64));
    for (const id of sandboxes) await makeSandbox(this.#world, this.#schedule, this.#durable, this.#volatile, id);
    this.#daemon.start();
    this.#planEvents();
    const workload = new Workload({
      schedule: this.#schedule,
      random: this.#random.fork(),
      daemon: this.#daemon,
      troubles: this.#troubles,
      verdict: this.#verdict,
    });
    const containers = Array.from({ length: this.#random.between(2, 5) }, (_, index) =>
      workload.container(sandboxes[index % sandboxes.length] ?? '', `c${String(index)}`),
    );
    const ending = Promise.all(containers).then(async () => {
      await this.#schedule.pause(this.#random.between(0, 2_000));
      await Promise.all(sandboxes.map((id) => workload.sandbox(id)));
    });
    await this.#play(ending);
    this.#durable.close();
    this.#volatile.close();
    return {
      seed: this.#seed,
      violations: this.#verdict.violations,
      steps: this.#steps,
      lives: this.#daemon.number,
      trace: this.#trace,
    };
  }

  async #play(ending: Promise<unknown>): Promise<void> {
    ending.then(
      () => (this.#ended = true),
      (error: unknown) => this.#verdict.failed(`the client's program broke: ${String(error)}`),
    );
    const { violations } = this.#verdict;
    for (;;) {
      await settled();
      if (violations.length > 0) return;
      if (this.#ended && this.#leftovers().length === 0) break;
      if (this.#schedule.nowMs > TROUBLE_MS + OVER_MS) {
        const owed = this.#daemon.life === undefined ? [] : this.#schedule.owedTo(this.#daemon.life);
        const waits = `waits for: ${owed.join(', ')}`;
        this.#verdict.failed(
          `not over: ${this.#ended ? '' : 'a client waits; '}${this.#leftovers().join('; ')}; ${waits}`,
        );
        return;
      }
      this.#steps++;
      if (!this.#schedule.step()) {
        this.#verdict.failed(`everything stands still: ${this.#leftovers().join('; ')}`);
        return;
      }
      this.#verdict.checkTimes();
    }
  }

  #leftovers(): string[] {
    return this.#verdict.leftovers(() =>
      [this.#durable, this.#volatile].flatMap((disk) =>
        disk
          .read<{ owner: string; kind: string }>('SELECT owner, kind FROM ledger')
          .map(({ owner, kind }) => `ledger: ${owner} ${kind}`),
      ),
    );
  }

  /** What happens from outside, and when. */
  #planEvents(): void {
    const random = this.#random.fork();
    const at = (probability: number, latestMs: number, fn: () => void): void => {
      if (random.chance(probability)) this.#schedule.after(random.between(0, latestMs), fn);
    };
    for (let left = random.pick([0, 0, 1, 2, 3]); left > 0; left--) {
      at(1, 20_000, () => {
        this.#note(() => 'gantryd is killed');
        this.#daemon.kill();
        this.#comeBack();
      });
    }
    at(0.06, 15_000, () => this.#reboot());
    for (let left = 2; left > 0; left--) {
      at(0.3, 20_000, () => {
        const deltaMs = random.pick([-3_600_000, -5_000, 5_000, 86_400_000]);
        this.#note(() => `the wall clock steps by ${String(deltaMs)}`);
        this.#schedule.stepWall(deltaMs);
      });
    }
    at(0.2, 10_000, () => {
      this.#note(() => 'the watch on exit files tells nothing any more');
      this.#world.onExitFile = () => undefined;
    });
    at(0.15, 15_000, () => {
      this.#note(() => 'the disk is full');
      this.#durable.full = true;
      this.#verdict.lenient = true;
      this.#schedule.after(random.between(500, 6_000), () => {
        this.#durable.full = false;
        this.#note(() => 'the disk has room again');
      });
    });
    this.#mishaps();
    this.#schedule.after(TROUBLE_MS, () => this.#heal());
  }

  /** What befalls a container befalls it some time after it was made. */
  #mishaps(): void {
    const seen = new Set<string>();
    const look = (): void => {
      for (const id of this.#world.bodies.keys()) {
        const { mishap } = this.#troubles.temperOf(id);
        if (mishap === undefined || seen.has(id)) continue;
        seen.add(id);
        this.#schedule.after(mishap.afterMs, () => {
          if (this.#troubles.healed) return;
          this.#note(() => `${id}: ${mishap.kind}`);
          if (mishap.kind === 'monitor killed') this.#world.killMonitor(id);
          else if (mishap.kind === 'monitor stopped') this.#world.stopMonitor(id);
          else this.#world.freeze(id);
        });
      }
      if (!this.#troubles.healed) this.#schedule.after(300, look);
    };
    look();
  }

  #heal(): void {
    this.#note(() => 'nothing goes wrong any more');
    this.#troubles.healed = true;
    this.#deaths = 0;
    for (const [id, temper] of this.#troubles.all()) {
      temper.undying = false;
      this.#world.release(id);
      this.#world.continueMonitor(id);
    }
  }

  #comeBack(): void {
    const { number } = this.#daemon;
    this.#schedule.after(this.#random.pick([0, 100, this.#random.between(0, 6_000)]), () => {
      if (this.#daemon.number !== number || this.#daemon.life !== undefined) return;
      this.#note(() => 'gantryd is started');
      this.#daemon.start();
    });
  }

  #reboot(): void {
    this.#note(() => 'the machine is restarted');
    this.#daemon.kill();
    this.#world.reboot(SIM_SETTINGS.state);
    this.#volatile.write({ sql: 'DELETE FROM ledger' });
    this.#verdict.lenient = true;
    this.#comeBack();
  }

  /** What the daemon says goes between the things that happen. */
  #log(): Log {
    const say = (fields: Record<string, unknown>, message: string): void => {
      this.#note(() => `  gantryd: ${message} ${JSON.stringify(fields)}`);
    };
    const log: Log = { debug: say, info: say, warn: say, error: say, child: () => log };
    return log;
  }

  #note(line: () => string): void {
    if (this.#traced) this.#trace.push(`${String(this.#schedule.nowMs).padStart(7)} ${line()}`);
  }
}

/** Lets everything run that waits for nothing outside. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
