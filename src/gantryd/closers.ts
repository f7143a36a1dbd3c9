import { messageOf } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';

/** The parts of the process that have to be closed, in the order in which they were made. */
export class Closers {
  readonly #log: Log;
  readonly #closers: { readonly what: string; readonly close: () => unknown }[] = [];

  constructor(log: Log) {
    this.#log = log;
  }

  /** Answers the part itself. */
  add<T>(what: string, part: T, close: (part: T) => unknown): T {
    this.#closers.push({ what, close: () => close(part) });
    return part;
  }

  /** The last one first. One that fails is told and keeps no other; a second call has nothing left to do. */
  async close(): Promise<void> {
    for (const { what, close } of this.#closers.splice(0).reverse()) {
      try {
        await close();
      } catch (error) {
        this.#log.warn({ what, error: messageOf(error) }, 'a part did not close cleanly');
      }
    }
  }
}
