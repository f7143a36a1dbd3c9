import { withDeadline, type Op } from './abort.ts';
import { backoffDelayMs, type BackoffPolicy } from './backoff.ts';
import type { Clock, Timer } from './clock.ts';
import { messageOf } from './errors.ts';
import type { Log } from './log.ts';

/** What is in back-off for one id, for `explain` and health. */
export interface RetryView {
  readonly id: string;
  readonly events: readonly string[];
  readonly sinceWallMs: number;
  readonly attempts: number;
  readonly lastError: string;
  /** Absent while an attempt runs. */
  readonly nextTryWallMs?: number;
}

export interface RetryQueueDeps<Event> {
  readonly clock: Clock;
  readonly log: Log;
  readonly policy: BackoffPolicy;
  /** Budget of one attempt at one event (BEHAVIOUR.md C1). */
  readonly attemptTimeoutMs: number;
  /** Two events with the same name for the same id are one piece of work. */
  nameOf(event: Event): string;
  /** What all else of its id depends on: it is tried before what waits already. Default: nothing is. */
  goesFirst?(event: Event): boolean;
  handle(op: Op, id: string, event: Event): Promise<void>;
}

interface Item<Event> {
  readonly event: Event;
  /** When it was told, in order. */
  readonly arrival: number;
}

interface Waiting<Event> {
  /** In the order in which they are tried. */
  items: Item<Event>[];
  readonly sinceWallMs: number;
  attempts: number;
  lastError: string;
  /** Told while it waited or was worked on: one beside the attempt that runs makes it wait again. */
  failures: number;
  /** Absent while an attempt runs. */
  due?: { readonly timer: Timer; readonly wallMs: number };
}

/**
 * Work that failed and is tried again: 1 s, doubling to 5 min, in order per id; ids do not wait for one another. When an id
 * falls due its whole queue is taken; the first failure puts that event and those behind it back among whatever came
 * meanwhile: merged, never overwritten (BEHAVIOUR.md 25, 26, T7). The order is that of arrival, whichever failed first.
 */
export class RetryQueue<Event> {
  readonly #deps: RetryQueueDeps<Event>;
  readonly #waiting = new Map<string, Waiting<Event>>();
  readonly #closing = new AbortController();
  #arrivals = 0;

  constructor(deps: RetryQueueDeps<Event>) {
    this.#deps = deps;
  }

  has(id: string): boolean {
    return this.#waiting.has(id);
  }

  /**
   * The first attempt at once, unless the id is in back-off: then the event queues up behind what waits. Never throws:
   * a failure goes into back-off. Resolves with whether the event is done.
   */
  async attempt(id: string, event: Event): Promise<boolean> {
    const item = this.#arrived(event);
    const waiting = this.#waiting.get(id);
    if (waiting !== undefined) {
      this.#place(waiting, item);
      return false;
    }
    try {
      await this.#try(id, event);
      return true;
    } catch (error) {
      this.#fail(id, item, error);
      return false;
    }
  }

  /** Puts an event whose attempt failed into back-off. */
  fail(id: string, event: Event, error: unknown): void {
    this.#fail(id, this.#arrived(event), error);
  }

  #fail(id: string, item: Item<Event>, error: unknown): void {
    if (this.#closing.signal.aborted) return;
    const message = messageOf(error);
    this.#deps.log.warn({ id, event: this.#deps.nameOf(item.event), error: message }, 'failed, will be tried again');
    const waiting = this.#waiting.get(id);
    if (waiting !== undefined) {
      waiting.lastError = message;
      waiting.failures++;
      this.#place(waiting, item);
      return;
    }
    const fresh: Waiting<Event> = {
      items: [item],
      sinceWallMs: this.#deps.clock.wallMs(),
      attempts: 1,
      lastError: message,
      failures: 0,
    };
    this.#waiting.set(id, fresh);
    this.#arm(id, fresh);
  }

  /** The object is gone: nothing of it is left to do. */
  forget(id: string): void {
    this.#waiting.get(id)?.due?.timer.cancel();
    this.#waiting.delete(id);
  }

  view(): RetryView[] {
    return [...this.#waiting].map(([id, waiting]) => ({
      id,
      events: waiting.items.map(({ event }) => this.#deps.nameOf(event)),
      sinceWallMs: waiting.sinceWallMs,
      attempts: waiting.attempts,
      lastError: waiting.lastError,
      ...(waiting.due === undefined ? {} : { nextTryWallMs: waiting.due.wallMs }),
    }));
  }

  viewOf(id: string): RetryView | undefined {
    return this.view().find((view) => view.id === id);
  }

  close(): void {
    this.#closing.abort();
    for (const id of [...this.#waiting.keys()]) this.forget(id);
  }

  #arrived(event: Event): Item<Event> {
    return { event, arrival: this.#arrivals++ };
  }

  #place(waiting: Waiting<Event>, item: Item<Event>): void {
    const { items } = waiting;
    const name = this.#deps.nameOf(item.event);
    const same = items.findIndex(({ event }) => this.#deps.nameOf(event) === name);
    if (same !== -1) {
      if (!this.#isBefore(item, items[same])) return;
      items.splice(same, 1);
    }
    const behind = items.findIndex((other) => this.#isBefore(item, other));
    items.splice(behind === -1 ? items.length : behind, 0, item);
  }

  #isBefore(one: Item<Event>, other: Item<Event> | undefined): boolean {
    if (other === undefined) return false;
    const [oneFirst, otherFirst] = [one, other].map(({ event }) => this.#deps.goesFirst?.(event) === true);
    return oneFirst === otherFirst ? one.arrival < other.arrival : oneFirst === true;
  }

  #arm(id: string, waiting: Waiting<Event>): void {
    const delayMs = backoffDelayMs(this.#deps.policy, waiting.attempts);
    const timer = this.#deps.clock.after(delayMs, () => {
      void this.#run(id, waiting);
    });
    waiting.due = { timer, wallMs: this.#deps.clock.wallMs() + delayMs };
  }

  async #run(id: string, waiting: Waiting<Event>): Promise<void> {
    delete waiting.due;
    const failuresBefore = waiting.failures;
    const taken = waiting.items;
    waiting.items = [];
    for (const [index, item] of taken.entries()) {
      // What failed meanwhile and has its place before this one: this one waits behind it.
      if (this.#isBefore(waiting.items[0] ?? item, item)) {
        this.#putBack(waiting, taken.slice(index));
        break;
      }
      try {
        await this.#try(id, item.event);
      } catch (error) {
        if (this.#waiting.get(id) !== waiting) return;
        this.#putBack(waiting, taken.slice(index));
        waiting.attempts++;
        waiting.lastError = messageOf(error);
        this.#deps.log.warn(
          { id, event: this.#deps.nameOf(item.event), attempts: waiting.attempts, error: waiting.lastError },
          'failed again',
        );
        this.#arm(id, waiting);
        return;
      }
      if (this.#waiting.get(id) !== waiting) return;
    }
    if (waiting.failures > failuresBefore) {
      waiting.attempts++;
      this.#arm(id, waiting);
      return;
    }
    if (waiting.items.length > 0) {
      // Came while the last of the others was handled: their turn is now, and the back-off starts anew.
      waiting.attempts = 0;
      await this.#run(id, waiting);
      return;
    }
    this.#waiting.delete(id);
  }

  #putBack(waiting: Waiting<Event>, left: readonly Item<Event>[]): void {
    for (const item of left) this.#place(waiting, item);
  }

  async #try(id: string, event: Event): Promise<void> {
    await withDeadline(
      { signal: this.#closing.signal, log: this.#deps.log },
      this.#deps.clock,
      this.#deps.attemptTimeoutMs,
      `${this.#deps.nameOf(event)} of ${id}`,
      (op) => this.#deps.handle(op, id, event),
    );
  }
}
