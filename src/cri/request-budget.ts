import { GantryError } from '../lib/errors.ts';

/** What any request may have without being counted: all that kubelet sends is smaller. */
const FREE_BYTES = 64 * 1024;
/** Of what is larger: four of the longest that are taken. */
const MOST_HELD_BYTES = 64 * 1024 * 1024;

/** The memory that requests have which are not whole yet: clients that begin long ones and stop are not to fill it. One for all connections. */
export class RequestBudget {
  #held = 0;

  /** A request's part of it, to be disposed of when the request is whole or given up. */
  share(): RequestShare {
    return new RequestShare((bytes) => {
      if (this.#held + bytes > MOST_HELD_BYTES) {
        const words = 'too many long requests are not whole yet: send this one again later';
        throw new GantryError('ResourceExhausted', words);
      }
      this.#held += bytes;
    });
  }
}

export class RequestShare implements Disposable {
  readonly #hold: (bytes: number) => void;
  #bytes = 0;
  #held = 0;

  constructor(hold: (bytes: number) => void) {
    this.#hold = hold;
  }

  /** So many bytes more have come. Throws ResourceExhausted when others hold too much. */
  grow(bytes: number): void {
    this.#bytes += bytes;
    const more = Math.max(0, this.#bytes - FREE_BYTES) - this.#held;
    this.#hold(more);
    this.#held += more;
  }

  [Symbol.dispose](): void {
    this.#hold(-this.#held);
    this.#held = 0;
  }
}
