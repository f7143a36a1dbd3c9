import { raceSignal, type Op } from '../../lib/abort.ts';

/** Lets a few at a time through, in the order of arrival. */
export class Slots {
  #free: number;
  readonly #waiting: ((turn: undefined) => void)[] = [];

  constructor(count: number) {
    this.#free = count;
  }

  /** Runs `fn` when a slot is free. Rejects with the signal's reason when that fires while waiting. */
  async run<T>(op: Op, fn: () => Promise<T>): Promise<T> {
    await this.#take(op);
    try {
      return await fn();
    } finally {
      this.#give();
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
