import type { Clock } from '../../lib/clock.ts';
import { messageOf } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import type { Database } from '../../lib/store/store-thread.ts';

export interface RecordDeps {
  readonly db: Database;
  readonly clock: Clock;
  readonly log: Log;
}

/** Another object for every change. */
interface Visible<Status> {
  readonly status: Status;
}

/** A visible status that is not on disk yet. */
interface Unpersisted {
  /** To be called when it is; without those for whom a write is under way. */
  readonly waiting: (() => void)[];
  retry: boolean;
}

const RETRY_MS = 1_000;

/**
 * The statuses of one kind of objects on their way to the disk, which carries out what it is asked for in that order. Whatever fails and
 * however calls come together: what has been written before it was made visible stays on disk until something newer is there, and
 * what was made visible first comes to be there.
 */
export class RecordWrites<Status> {
  readonly #deps: RecordDeps;
  readonly #sql: string;
  readonly #visible: (id: string) => Visible<Status> | undefined;
  readonly #unpersisted = new Map<string, Unpersisted>();
  /** By id: the last of those who have their turn or wait for it. */
  readonly #turns = new Map<string, Promise<void>>();
  #closed = false;

  constructor(
    deps: RecordDeps,
    table: 'sandboxes' | 'containers',
    visible: (id: string) => Visible<Status> | undefined,
  ) {
    this.#deps = deps;
    this.#sql = `UPDATE ${table} SET status = ? WHERE id = ?`;
    this.#visible = visible;
  }

  /** Ids whose visible status is newer than what is on disk. */
  get unpersisted(): readonly string[] {
    return [...this.#unpersisted.keys()];
  }

  /**
   * For what is written before it is visible, and for what is written once more: one after another per object, else each would take the
   * other off the disk.
   */
  async inTurn<T>(id: string, work: () => Promise<T>): Promise<T> {
    const before = this.#turns.get(id);
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const turn = promise.then(() => undefined);
    this.#turns.set(id, turn);
    try {
      if (before !== undefined) await before;
      return await work();
    } finally {
      resolve(undefined);
      if (this.#turns.get(id) === turn) this.#turns.delete(id);
    }
  }

  async write(id: string, status: Status): Promise<void> {
    await this.#deps.db.write({ sql: this.#sql, params: [JSON.stringify(status), id] });
  }

  /**
   * Writes what has become visible just now, again and again until it is on disk. It takes no turn: who has it finds another status than
   * the one that he began with, and begins anew. `onPersisted` is called once, unless the object is gone before.
   */
  writeVisible(id: string, onPersisted?: () => void): void {
    let unpersisted = this.#unpersisted.get(id);
    if (unpersisted === undefined) this.#unpersisted.set(id, (unpersisted = { waiting: [], retry: false }));
    if (onPersisted !== undefined) unpersisted.waiting.push(onPersisted);
    void this.#tryVisible(id);
  }

  /** Calls back once when what is visible is on disk, at once where it is, and not at all when the object is gone before. */
  whenPersisted(id: string, told: () => void): void {
    const unpersisted = this.#unpersisted.get(id);
    if (unpersisted === undefined) told();
    else unpersisted.waiting.push(told);
  }

  /** What is visible is on disk. */
  settle(id: string): void {
    const unpersisted = this.#unpersisted.get(id);
    this.#unpersisted.delete(id);
    if (unpersisted !== undefined) callAll(unpersisted.waiting);
  }

  /** The object is gone. */
  forget(id: string): void {
    this.#unpersisted.delete(id);
  }

  /** Nothing is tried again from now on. */
  close(): void {
    this.#closed = true;
  }

  async #tryVisible(id: string): Promise<void> {
    const visible = this.#visible(id);
    const unpersisted = this.#unpersisted.get(id);
    if (visible === undefined || unpersisted === undefined) return;
    const waiting = unpersisted.waiting.splice(0);
    try {
      await this.write(id, visible.status);
    } catch (error) {
      unpersisted.waiting.push(...waiting);
      this.#retryLater(id, unpersisted, error);
      return;
    }
    // Otherwise what is visible by now has a write of its own, or is being tried again.
    if (this.#visible(id) === visible) this.settle(id);
    callAll(waiting);
  }

  #retryLater(id: string, unpersisted: Unpersisted, error: unknown): void {
    if (this.#unpersisted.get(id) !== unpersisted) {
      // Something newer came through, which contains it.
      if (this.#visible(id) !== undefined) callAll(unpersisted.waiting);
      return;
    }
    if (this.#closed || unpersisted.retry) return;
    this.#deps.log.error({ id, error: messageOf(error) }, 'status not persisted, trying again');
    unpersisted.retry = true;
    this.#deps.clock.after(RETRY_MS, () => {
      unpersisted.retry = false;
      if (!this.#closed) void this.inTurn(id, () => this.#tryVisible(id));
    });
  }
}

function callAll(waiting: (() => void)[]): void {
  for (const told of waiting.splice(0)) told();
}
