import { raceSignal, type Op } from './abort.ts';
import type { Clock } from './clock.ts';
import { waitingFor } from './waits.ts';

export interface SlotsOptions {
  /** What those have a turn at who wait, in words: `creating a container`. */
  readonly what: string;
  /** Whoever takes longer goes on without its slot: what hangs uses no processor, and must keep nobody else waiting. */
  readonly hold?: { readonly clock: Clock; readonly ms: number };
}

/** Lets a few at a time through, in the order of arrival. */
export class Slots {
  readonly #options: SlotsOptions;
  #free: number;
  readonly #waiting: ((turn: undefined) => void)[] = [];

  constructor(count: number, options: SlotsOptions) {
    this.#free = count;
    this.#options = options;
  }

  /** Runs `fn` when a slot is free. Rejects with the signal's reason when that fires while waiting. */
  async run<T>(op: Op, fn: () => Promise<T>): Promise<T> {
    const { what, hold } = this.#options;
    await waitingFor(op, `its turn at ${what}`, () => this.#take(op));
    let held = true;
    const giveBack = (): void => {
      if (held) this.#give();
      held = false;
    };
    const timer = hold?.clock.after(hold.ms, giveBack);
    try {
      return await fn();
    } finally {
      timer?.cancel();
      giveBack();
    }
  }

  async #take(op: Op): Promise<void> {
    op.signal.throwIfAborted();
    if (this.#free > 0) {
      this.#free--;
      return;
    }
    const turn = Promise.withResolvers<undefined>();
    this.#waiting.push(turn.resolve);
    try {
      await raceSignal(turn.promise, op.signal);
    } catch (error) {
      const index = this.#waiting.indexOf(turn.resolve);
      // Not waiting any more: the slot was ours already, and must not be lost.
      if (index >= 0) this.#waiting.splice(index, 1);
      else this.#give();
      throw error;
    }
  }

  #give(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free++;
    else next(undefined);
  }
}
