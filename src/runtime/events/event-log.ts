import { raceSignal, type Op } from '../../lib/abort.ts';
import { invalidArgument } from '../../lib/errors.ts';

/** What a reader is told. Sequence numbers begin at 1 and have no gap but where `lost` says so. */
export type News<T> =
  | { readonly kind: 'event'; readonly seq: number; readonly value: T }
  /** The reader was too slow: `count` events before `nextSeq` are gone. Whoever keeps a picture looks at everything again. */
  | { readonly kind: 'lost'; readonly count: number; readonly nextSeq: number };

/**
 * The last events, numbered, for any number of readers. A reader is a place in the log and nothing else: whoever writes waits
 * for nobody and keeps nothing per reader, so a slow one costs only itself, and one that goes away need not be missed
 * (FAILURES.md row 35).
 */
export class EventLog<T> {
  readonly #capacity: number;
  /** The event with number n is at n % capacity. */
  readonly #kept: T[] = [];
  readonly #waiting = new Set<() => void>();
  #lastSeq = 0;
  #closed = false;

  /** `capacity`: how many events a reader may be behind before it loses some. */
  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  /** The number of the newest event; 0 before the first. */
  get lastSeq(): number {
    return this.#lastSeq;
  }

  /** Readers that have seen everything and wait for more. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** Never waits and never throws. Returns the event's number. */
  append(value: T): number {
    const seq = ++this.#lastSeq;
    this.#kept[seq % this.#capacity] = value;
    this.#wake();
    return seq;
  }

  /**
   * Everything after the event numbered `after` (default: from this call on, not from the first read). Ends when the log is
   * closed; throws the op's reason when that fires, and InvalidArgument at once for an event that has not been yet.
   */
  follow(op: Op, after = this.#lastSeq): AsyncGenerator<News<T>, void, undefined> {
    if (!Number.isInteger(after) || after < 0 || after > this.#lastSeq) {
      throw invalidArgument(`there is no event ${String(after)} to go on from: the newest is ${String(this.#lastSeq)}`);
    }
    return this.#read(op, after + 1);
  }

  /** Readers get what there is, and then the end. */
  close(): void {
    this.#closed = true;
    this.#wake();
  }

  async *#read(op: Op, from: number): AsyncGenerator<News<T>, void, undefined> {
    let seq = from;
    for (;;) {
      const oldest = Math.max(1, this.#lastSeq - this.#capacity + 1);
      if (seq < oldest) {
        const count = oldest - seq;
        seq = oldest;
        yield { kind: 'lost', count, nextSeq: oldest };
      } else if (seq <= this.#lastSeq) {
        const value = this.#kept[seq % this.#capacity] as T;
        yield { kind: 'event', seq: seq++, value };
      } else if (this.#closed) {
        return;
      } else {
        await this.#more(op);
      }
    }
  }

  async #more(op: Op): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const wake = (): void => resolve(undefined);
    this.#waiting.add(wake);
    try {
      await raceSignal(promise, op.signal);
    } finally {
      this.#waiting.delete(wake);
    }
  }

  #wake(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const wake of waiting) wake();
  }
}
