import { raceSignal, childSignal, type Op } from './abort.ts';
import type { Clock } from './clock.ts';
import { canceled, messageOf } from './errors.ts';
import type { Log } from './log.ts';
import { Waits, type Wait } from './waits.ts';

export interface LaneStep<T> {
  /** What the step does, for logs, `explain` and error messages. */
  readonly name: string;
  /** Budget of this step alone. When it passes the step's signal fires. */
  readonly timeoutMs: number;
  run(op: Op): Promise<T>;
}

export interface LaneView {
  readonly running?: { readonly name: string; readonly sinceMs: number; readonly waits: readonly Wait[] };
  readonly queued: readonly string[];
}

/**
 * Every change of one object's state is a short step in its lane, one after another in the order of arrival. Lanes of
 * different objects run side by side, so a hung umount delays its own container and nobody else.
 *
 * A step that outlives its budget has its signal fired, and its caller gets DeadlineExceeded at once; the lane itself stays taken until
 * the step has really ended, because two steps on one object at once are what a lane exists to prevent.
 * Never put a wait (for an exit, for a timer) into a step: enqueue a step from the thing waited for instead.
 */
export class Lane {
  readonly #clock: Clock;
  readonly #log: Log;
  #tail: Promise<unknown> = Promise.resolve();
  #running: { name: string; sinceMs: number; waits: Waits; abort: (reason: Error) => void } | undefined;
  readonly #queued: { name: string }[] = [];
  readonly #onIdle: (() => void) | undefined;

  constructor(clock: Clock, log: Log, onIdle?: () => void) {
    this.#clock = clock;
    this.#log = log;
    this.#onIdle = onIdle;
  }

  /** Runs the step after all that were enqueued before it. Rejects with what the step threw, or DeadlineExceeded. */
  enqueue<T>(step: LaneStep<T>): Promise<T> {
    const ticket = { name: step.name };
    this.#queued.push(ticket);
    const result = Promise.withResolvers<T>();
    this.#tail = this.#tail.then(async () => {
      this.#queued.splice(this.#queued.indexOf(ticket), 1);
      await this.#run(step, result);
      if (this.idle) this.#onIdle?.();
    });
    return result.promise;
  }

  async #run<T>(step: LaneStep<T>, result: PromiseWithResolvers<T>): Promise<void> {
    const waits = new Waits(this.#clock);
    using child = childSignal(undefined, {
      clock: this.#clock,
      timeoutMs: step.timeoutMs,
      what: step.name,
      waits,
    });
    this.#running = {
      name: step.name,
      sinceMs: this.#clock.monotonicMs(),
      waits,
      abort: (reason) => {
        child.abort(reason);
      },
    };
    let work: Promise<T>;
    try {
      work = step.run({ signal: child.signal, log: this.#log, waits });
    } catch (error) {
      work = Promise.reject(error instanceof Error ? error : new Error(messageOf(error)));
    }
    raceSignal(work, child.signal).then(result.resolve, result.reject);
    await work.then(
      () => undefined,
      () => undefined,
    );
    this.#running = undefined;
  }

  /**
   * Fires the signal of the step that runs now if it has that name, so that Stop and Remove need not wait out a slow create. By the time
   * at which they say so another may run: a cleanup, which nobody means.
   */
  abortRunning(name: string, reason: string): void {
    if (this.#running?.name === name) this.#running.abort(canceled(reason));
  }

  /** What runs and what waits: for `explain` and for health. */
  view(): LaneView {
    const running = this.#running;
    return {
      ...(running === undefined
        ? {}
        : { running: { name: running.name, sinceMs: running.sinceMs, waits: running.waits.present() } }),
      queued: this.#queued.map((ticket) => ticket.name),
    };
  }

  get idle(): boolean {
    return this.#running === undefined && this.#queued.length === 0;
  }
}

/** One lane per id, made on first use and dropped when it has nothing left to do. */
export class Lanes {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #lanes = new Map<string, Lane>();

  constructor(clock: Clock, log: Log) {
    this.#clock = clock;
    this.#log = log;
  }

  enqueue<T>(id: string, step: LaneStep<T>): Promise<T> {
    let lane = this.#lanes.get(id);
    if (lane === undefined) {
      lane = new Lane(this.#clock, this.#log.child({ lane: id }), () => this.#lanes.delete(id));
      this.#lanes.set(id, lane);
    }
    return lane.enqueue(step);
  }

  abortRunning(id: string, name: string, reason: string): void {
    this.#lanes.get(id)?.abortRunning(name, reason);
  }

  view(id: string): LaneView {
    return this.#lanes.get(id)?.view() ?? { queued: [] };
  }

  get size(): number {
    return this.#lanes.size;
  }
}
