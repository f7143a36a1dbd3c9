import { childSignal, raceSignal, type ChildSignal, type Op } from '../../lib/abort.ts';
import type { Clock, Timer } from '../../lib/clock.ts';
import { canceled, isKind } from '../../lib/errors.ts';

interface Entry<T, E> {
  readonly promise: Promise<T>;
  readonly child: ChildSignal;
  readonly listeners: Set<(event: E) => void>;
  last: E | undefined;
  waiters: number;
  /** Runs while nobody waits and the work goes on all the same. */
  unawaited?: Timer;
}

interface Linger {
  readonly clock: Pick<Clock, 'after'>;
  readonly unawaitedMs: number;
}

/**
 * Work that several callers want at the same time, done once. A caller that gives up leaves the others undisturbed;
 * when the last one has left, the work is aborted, and whoever comes next waits until it has really ended. If it was the
 * last one's deadline that passed, the work goes on for `unawaitedMs`: it will ask again, and joins.
 */
export class SharedWork<T, E> {
  readonly #entries = new Map<string, Entry<T, E>>();
  readonly #linger: Linger | undefined;

  constructor(linger?: Linger) {
    this.#linger = linger;
  }

  /** `joined` tells a caller whose work it was that failed: another's failure may have nothing to do with it. */
  async run(
    op: Op,
    key: string,
    listener: (event: E) => void,
    start: (op: Op, emit: (event: E) => void) => Promise<T>,
  ): Promise<{ readonly joined: boolean; readonly outcome: PromiseSettledResult<T> }> {
    for (;;) {
      let entry = this.#entries.get(key);
      if (entry?.child.signal.aborted) {
        await raceSignal(
          entry.promise.catch(() => undefined),
          op.signal,
        );
        continue;
      }
      const joined = entry !== undefined;
      entry ??= this.#begin(op, key, start);
      if (entry.last !== undefined) listener(entry.last);
      entry.listeners.add(listener);
      entry.waiters++;
      entry.unawaited?.cancel();
      try {
        const value = await raceSignal(entry.promise, op.signal);
        return { joined, outcome: { status: 'fulfilled', value } };
      } catch (reason) {
        if (op.signal.aborted) throw reason;
        return { joined, outcome: { status: 'rejected', reason } };
      } finally {
        entry.listeners.delete(listener);
        if (--entry.waiters === 0) this.#leave(key, entry, op);
      }
    }
  }

  /** Aborts what nobody waits for any more, of these keys. */
  dropUnawaited(isMeant: (key: string) => boolean): void {
    for (const [key, entry] of this.#entries) {
      if (entry.waiters === 0 && isMeant(key)) entry.child.abort(canceled('nobody wants it any more'));
    }
  }

  #leave(key: string, entry: Entry<T, E>, op: Op): void {
    if (this.#entries.get(key) !== entry) return; // it has ended
    const abort = (): void => entry.child.abort(canceled('nobody waits for it any more'));
    if (this.#linger === undefined || !isKind(op.signal.reason, 'DeadlineExceeded')) abort();
    else entry.unawaited = this.#linger.clock.after(this.#linger.unawaitedMs, abort);
  }

  get size(): number {
    return this.#entries.size;
  }

  #begin(op: Op, key: string, start: (op: Op, emit: (event: E) => void) => Promise<T>): Entry<T, E> {
    // No parent: the first caller's signal must not end what others have joined.
    const child = childSignal(undefined);
    const listeners = new Set<(event: E) => void>();
    const emit = (event: E): void => {
      entry.last = event;
      for (const listener of listeners) listener(event);
    };
    const promise = (async () => {
      // One turn later, so that `entry` exists whatever `start` does first.
      await Promise.resolve();
      try {
        return await start({ signal: child.signal, log: op.log }, emit);
      } finally {
        this.#entries.get(key)?.unawaited?.cancel();
        this.#entries.delete(key);
        child.close();
      }
    })();
    promise.catch(() => undefined);
    const entry: Entry<T, E> = { promise, child, listeners, last: undefined, waiters: 0 };
    this.#entries.set(key, entry);
    return entry;
  }
}
