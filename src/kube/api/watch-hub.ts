import type { KubeObject, Resource } from '../objects.ts';
import { apiError } from '../status-error.ts';

/** One committed change of one object. */
export interface StoreEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly resource: Resource;
  readonly resourceVersion: number;
  /** As it is from here on; of a deleted object, its last state with the version of the deletion. */
  readonly object: KubeObject;
  readonly previous?: KubeObject;
  /** Size of the object as JSON. */
  readonly bytes: number;
}

export interface HistoryLimits {
  readonly events: number;
  readonly bytes: number;
}

/** A watch further back than this is told to list again, as an API server does with its cache. */
export const DEFAULT_HISTORY: HistoryLimits = { events: 10_000, bytes: 64 * 1024 * 1024 };

/** A watcher that lets so many events pile up is cut off: it would only cost memory. */
const MAX_QUEUED = 10_000;

/** The last changes, in order, and those who wait for the next. */
export class WatchHub {
  readonly #limits: HistoryLimits;
  readonly #history: StoreEvent[] = [];
  readonly #watchers = new Set<EventQueue>();
  #bytes = 0;
  /** Every change after this version is in the history. */
  #completeSince: number;

  constructor(resourceVersion: number, limits: HistoryLimits) {
    this.#completeSince = resourceVersion;
    this.#limits = limits;
  }

  publish(event: StoreEvent): void {
    this.#history.push(event);
    this.#bytes += event.bytes;
    while (
      this.#history.length > this.#limits.events ||
      (this.#bytes > this.#limits.bytes && this.#history.length > 1)
    ) {
      const dropped = this.#history.shift();
      if (dropped === undefined) break;
      this.#bytes -= dropped.bytes;
      this.#completeSince = dropped.resourceVersion;
    }
    for (const watcher of this.#watchers) watcher.push(event);
  }

  /**
   * Everything after `resourceVersion`, from the history and then as it comes.
   *
   * @throws OutOfRange (410 Expired) if that is not known any more, or was never reached by this store
   */
  since(resourceVersion: number, current: number): EventQueue {
    if (resourceVersion < this.#completeSince) {
      throw apiError('Expired', `too old resource version: ${resourceVersion} (${this.#completeSince})`);
    }
    if (resourceVersion > current) {
      throw apiError('Expired', `resource version ${resourceVersion} is not known here: the newest is ${current}`);
    }
    const queue = new EventQueue((closed) => this.#watchers.delete(closed));
    for (const event of this.#history) if (event.resourceVersion > resourceVersion) queue.push(event);
    this.#watchers.add(queue);
    return queue;
  }

  /** Ends every watch quietly. */
  close(): void {
    for (const watcher of this.#watchers) watcher.close();
  }
}

/** Events on their way to one watcher. */
export class EventQueue {
  readonly #onClose: (queue: EventQueue) => void;
  #events: StoreEvent[] = [];
  #wake: (() => void) | undefined;
  #closed = false;
  #error: Error | undefined;

  constructor(onClose: (queue: EventQueue) => void) {
    this.#onClose = onClose;
  }

  push(event: StoreEvent): void {
    if (this.#events.length >= MAX_QUEUED) {
      this.#error = apiError('Expired', 'the watch fell too far behind: list again');
      this.close();
      return;
    }
    this.#events.push(event);
    this.wake();
  }

  get isEmpty(): boolean {
    return this.#events.length === 0;
  }

  /** Lets {@link take} answer, even with nothing. */
  wake(): void {
    this.#wake?.();
    this.#wake = undefined;
  }

  close(): void {
    this.#closed = true;
    this.#onClose(this);
    this.wake();
  }

  /** All events that wait, as soon as there are any or somebody wakes it; undefined when closed. Throws if it was cut off. */
  async take(): Promise<StoreEvent[] | undefined> {
    if (this.#events.length === 0 && !this.#closed) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    if (this.#error !== undefined) throw this.#error;
    const taken = this.#events;
    this.#events = [];
    return taken.length === 0 && this.#closed ? undefined : taken;
  }
}
