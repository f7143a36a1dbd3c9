import type { Op } from '../../lib/abort.ts';
import { raceSignal } from '../../lib/abort.ts';
import { alreadyExists, invalidArgument, messageOf, notFound } from '../../lib/errors.ts';
import { RecordWrites, type RecordDeps } from './record-writes.ts';

/** What is known about one object: metadata never changes, status is replaced whole. */
export interface StoredRecord<Meta, Status> {
  readonly meta: Meta;
  readonly status: Status;
}

/** Undefined: the object was not there before, or is not there any more. */
export type RecordObserver<Meta, Status> = (
  before: StoredRecord<Meta, Status> | undefined,
  after: StoredRecord<Meta, Status> | undefined,
) => void;

export interface RecordCodec<Meta, Status> {
  /** The table, and what messages call such an object. */
  readonly table: 'sandboxes' | 'containers';
  readonly noun: string;
  encodeMeta(meta: Meta): { config: Uint8Array; facts: unknown };
  /** Throws on anything that it does not understand: the record is then set aside, not guessed at. */
  decode(id: string, config: Uint8Array, facts: unknown, status: unknown): StoredRecord<Meta, Status>;
}

/** A record that was moved to the table `damaged`. */
export interface DamagedRecord {
  readonly id: string;
  readonly reason: string;
}

interface Row {
  readonly id: string;
  readonly config: Uint8Array;
  readonly facts: string;
  readonly status: string;
}

/**
 * The objects of one kind: in memory for every question, in SQLite for the next process. Nothing here waits for a lane, and
 * one record that cannot be read is set aside by name while the rest goes on (BEHAVIOUR.md T15).
 */
export class RecordStore<Meta extends { readonly id: string }, Status> {
  readonly #deps: RecordDeps;
  readonly #codec: RecordCodec<Meta, Status>;
  readonly #records = new Map<string, StoredRecord<Meta, Status>>();
  readonly #listeners = new Map<string, Set<() => void>>();
  readonly #writes: RecordWrites<Status>;
  readonly #setAsideNow: DamagedRecord[] = [];
  readonly #observers: RecordObserver<Meta, Status>[] = [];

  private constructor(deps: RecordDeps, codec: RecordCodec<Meta, Status>) {
    this.#deps = deps;
    this.#codec = codec;
    this.#writes = new RecordWrites(deps, codec.table, (id) => this.#records.get(id));
  }

  static async open<Meta extends { readonly id: string }, Status>(
    deps: RecordDeps,
    codec: RecordCodec<Meta, Status>,
  ): Promise<RecordStore<Meta, Status>> {
    const store = new RecordStore(deps, codec);
    for (const row of await deps.db.read<Row>(`SELECT id, config, facts, status FROM ${codec.table}`)) {
      try {
        const record = codec.decode(row.id, row.config, JSON.parse(row.facts), JSON.parse(row.status));
        store.#records.set(row.id, record);
      } catch (error) {
        await store.#setAside(row.id, messageOf(error));
      }
    }
    return store;
  }

  /** What could not be read at the opening. */
  get damaged(): readonly DamagedRecord[] {
    return this.#setAsideNow;
  }

  get(id: string): StoredRecord<Meta, Status> | undefined {
    return this.#records.get(id);
  }

  /** Throws NotFound. */
  must(id: string): StoredRecord<Meta, Status> {
    const record = this.#records.get(id);
    if (record === undefined) throw notFound(`${this.#codec.noun} ${id} not found`);
    return record;
  }

  list(): StoredRecord<Meta, Status>[] {
    return [...this.#records.values()];
  }

  /**
   * The full id that a prefix stands for; undefined when there is none. Throws InvalidArgument when several objects
   * share the prefix.
   */
  resolve(prefix: string): string | undefined {
    if (this.#records.has(prefix)) return prefix;
    if (prefix === '') return undefined;
    let found: string | undefined;
    for (const id of this.#records.keys()) {
      if (!id.startsWith(prefix)) continue;
      if (found !== undefined) throw invalidArgument(`${this.#codec.noun} id ${prefix} is ambiguous`);
      found = id;
    }
    return found;
  }

  /** Persists, then publishes. */
  async insert(meta: Meta, status: Status): Promise<void> {
    if (this.#records.has(meta.id)) throw alreadyExists(`${this.#codec.noun} ${meta.id} exists`);
    const { config, facts } = this.#codec.encodeMeta(meta);
    await this.#deps.db.write({
      sql: `INSERT INTO ${this.#codec.table} (id, config, facts, status) VALUES (?, ?, ?, ?)`,
      params: [meta.id, config, JSON.stringify(facts), JSON.stringify(status)],
    });
    this.#publish(meta.id, { meta, status });
  }

  /**
   * Copies, persists, then publishes: nobody sees what is not on disk. If the status changed meanwhile (an exit does not
   * wait), `change` is asked again on the new one; it throws when it no longer applies. What has been returned is on disk from then
   * on, or something newer. Updates of one object wait for one another.
   * Throws NotFound when the object is gone.
   */
  update(id: string, change: (status: Status) => Status): Promise<Status> {
    return this.#writes.inTurn(id, async () => {
      for (;;) {
        const base = this.must(id);
        const status = change(base.status);
        if (status === base.status) return status;
        await this.#writes.write(id, status);
        if (this.#records.get(id) !== base) continue;
        this.#publish(id, { meta: base.meta, status });
        this.#writes.settle(id);
        return status;
      }
    });
  }

  /**
   * Publishes at once and persists after, again and again until it is on disk: for exits, which must be visible
   * whatever the disk does. Undefined when the object is gone. `onPersisted` is called when it is on disk, unless the object is gone before.
   */
  publishFirst(id: string, change: (status: Status) => Status, onPersisted?: () => void): Status | undefined {
    const base = this.#records.get(id);
    if (base === undefined) return undefined;
    const status = change(base.status);
    if (status === base.status) return status;
    this.#publish(id, { meta: base.meta, status });
    this.#writes.writeVisible(id, onPersisted);
    return status;
  }

  /**
   * From now on told of every change at the moment in which it becomes visible, in order. What was loaded from disk is no change.
   * An observer only takes note: it must neither throw nor change a record.
   */
  observe(observer: RecordObserver<Meta, Status>): void {
    this.#observers.push(observer);
  }

  /** Ids whose visible status is newer than what is on disk. */
  get unpersisted(): readonly string[] {
    return this.#writes.unpersisted;
  }

  /** Calls back once when what is visible of the object is on disk, at once where it is, and not at all when the object is gone before. */
  whenPersisted(id: string, told: () => void): void {
    this.#writes.whenPersisted(id, told);
  }

  /** Nothing is tried again from now on: the next process finds out by looking. */
  close(): void {
    this.#writes.close();
  }

  async remove(id: string): Promise<void> {
    await this.#deps.db.write({ sql: `DELETE FROM ${this.#codec.table} WHERE id = ?`, params: [id] });
    this.#writes.forget(id);
    this.#publish(id, undefined);
  }

  /** Resolves with the first status (undefined: gone) that `done` accepts; rejects with the op's reason. */
  async waitFor(op: Op, id: string, done: (status: Status | undefined) => boolean): Promise<Status | undefined> {
    for (;;) {
      const status = this.#records.get(id)?.status;
      if (done(status)) return status;
      using change = this.#nextChange(id);
      await raceSignal(change.promise, op.signal);
    }
  }

  #nextChange(id: string): Disposable & { promise: Promise<void> } {
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const listener = (): void => {
      resolve(undefined);
    };
    let listeners = this.#listeners.get(id);
    if (listeners === undefined) this.#listeners.set(id, (listeners = new Set()));
    listeners.add(listener);
    return {
      promise,
      [Symbol.dispose]: () => {
        const current = this.#listeners.get(id);
        current?.delete(listener);
        if (current?.size === 0) this.#listeners.delete(id);
      },
    };
  }

  #publish(id: string, record: StoredRecord<Meta, Status> | undefined): void {
    const before = this.#records.get(id);
    if (record === undefined) this.#records.delete(id);
    else this.#records.set(id, record);
    for (const listener of [...(this.#listeners.get(id) ?? [])]) listener();
    // After those who wait for this very object (BEHAVIOUR.md 40).
    for (const observer of this.#observers) observer(before, record);
  }

  async #setAside(id: string, reason: string): Promise<void> {
    this.#setAsideNow.push({ id, reason });
    this.#deps.log.error({ id, kind: this.#codec.table, reason }, 'damaged record set aside');
    try {
      await this.#deps.db.write(
        {
          sql: `INSERT OR REPLACE INTO damaged (kind, id, config, facts, status, reason, since_wall_ms)
                SELECT ?, id, config, facts, status, ?, ? FROM ${this.#codec.table} WHERE id = ?`,
          params: [this.#codec.table, reason, Math.round(this.#deps.clock.wallMs()), id],
        },
        { sql: `DELETE FROM ${this.#codec.table} WHERE id = ?`, params: [id] },
      );
    } catch (error) {
      // A full disk: it is met again at the next start.
      this.#deps.log.error({ id, error: messageOf(error) }, 'damaged record could not be moved');
    }
  }
}
