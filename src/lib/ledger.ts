import type { Op } from './abort.ts';
import type { Clock } from './clock.ts';
import { internal, messageOf } from './errors.ts';
import {
  deleteRow,
  insertRow,
  READ_LEDGER,
  readRow,
  setRowAside,
  type LedgerEntry,
  type LedgerRow,
} from './ledger-rows.ts';
import { silentLog, type Log } from './log.ts';
import type { Database, Statement } from './store/store-thread.ts';

export type { LedgerEntry } from './ledger-rows.ts';

export interface LedgerItem {
  readonly kind: string;
  readonly key: string;
  readonly data?: Readonly<Record<string, unknown>>;
  /** Dies with the boot (mounts, namespaces, processes, cgroups): kept in the volatile database. */
  readonly volatile: boolean;
}

/** Releases one thing. Must succeed when the thing is not there (any more), and throw while it is. */
export type Releaser = (op: Op, entry: LedgerEntry) => Promise<void>;
export type Releasers = Readonly<Record<string, Releaser>>;

export interface ReleaseFailure {
  readonly entry: LedgerEntry;
  readonly error: unknown;
}

/** A row that could not be read, wholly or in part. */
export interface DamagedEntry {
  readonly owner: string;
  readonly kind: string;
  readonly key: string;
  readonly reason: string;
  /** Nothing of it is known any more; otherwise it goes on as something that may be there. */
  readonly setAside: boolean;
}

export interface LedgerOptions {
  readonly log?: Log;
  /** Throws when an entry's data is not what releasing one of its kind needs: its row is damaged then. */
  readonly check?: (kind: string, data: LedgerEntry['data']) => void;
}

interface Held {
  readonly entry: LedgerEntry;
  readonly db: Database;
}

export class Ledger {
  readonly #clock: Clock;
  readonly #durable: Database;
  readonly #volatile: Database;
  readonly #byOwner = new Map<string, Map<string, Held>>();
  readonly #damaged: DamagedEntry[] = [];
  #seq = 0;

  private constructor(clock: Clock, durable: Database, volatile: Database) {
    this.#clock = clock;
    this.#durable = durable;
    this.#volatile = volatile;
  }

  /** Reads what earlier processes left. Both databases carry `LEDGER_SCHEMA`. What cannot be read stops nothing: see {@link damaged}. */
  static async open(clock: Clock, durable: Database, volatile: Database, options: LedgerOptions = {}): Promise<Ledger> {
    const ledger = new Ledger(clock, durable, volatile);
    for (const db of [durable, volatile]) await ledger.#read(db, options);
    return ledger;
  }

  async #read(db: Database, { log = silentLog, check }: LedgerOptions): Promise<void> {
    const misplaced: Omit<LedgerEntry, 'seq'>[] = [];
    const mending: Statement[] = [];
    for (const row of await db.read<LedgerRow>(READ_LEDGER)) {
      try {
        const { entry, seq, flaw } = readRow(row, this.#clock.wallMs());
        check?.(entry.kind, entry.data);
        if (flaw !== undefined) this.#note(log, row, flaw, false);
        if (seq === undefined) {
          misplaced.push(entry);
          continue;
        }
        this.#seq = Math.max(this.#seq, seq);
        this.#remember(db, { ...entry, seq });
        if (flaw !== undefined) mending.push(insertRow({ ...entry, seq }));
      } catch (error) {
        this.#note(log, row, messageOf(error), true);
        mending.push(...setRowAside(row, messageOf(error), this.#clock.wallMs()));
      }
    }
    for (const rest of misplaced) {
      const entry = { ...rest, seq: ++this.#seq };
      this.#remember(db, entry);
      mending.push(insertRow(entry));
    }
    if (mending.length === 0) return;
    try {
      await db.write(...mending);
    } catch (error) {
      // A full disk: they are met again at the next start.
      log.error({ error: messageOf(error) }, 'damaged entries of the ledger could not be moved');
    }
  }

  #note(log: Log, { owner, kind, key }: LedgerRow, reason: string, setAside: boolean): void {
    const damaged = { owner: String(owner), kind: String(kind), key: String(key), reason, setAside };
    this.#damaged.push(damaged);
    log.error({ ...damaged }, 'a damaged entry of the ledger');
  }

  /** What could not be read at the opening. */
  get damaged(): readonly DamagedEntry[] {
    return this.#damaged;
  }

  /** Writes the intent, acquires, writes that it is held. If acquiring fails the intent stays: it may have half worked. */
  async acquire<T>(owner: string, item: LedgerItem, acquire: () => Promise<T>): Promise<T> {
    await this.intend(owner, item);
    const value = await acquire();
    await this.hold(owner, item.kind, item.key);
    return value;
  }

  /** Writes the intents of several things with one commit, before the first of them is acquired. */
  async intend(owner: string, ...items: readonly LedgerItem[]): Promise<void> {
    for (const volatile of [false, true]) {
      const db = volatile ? this.#volatile : this.#durable;
      const mine = items.filter((item) => item.volatile === volatile);
      if (mine.length === 0) continue;
      const entries = mine.map((item): LedgerEntry => ({
        owner,
        kind: item.kind,
        key: item.key,
        data: item.data ?? {},
        state: 'intended',
        seq: ++this.#seq,
        sinceWallMs: this.#clock.wallMs(),
      }));
      for (const entry of entries) this.#remember(db, entry);
      await db.write(...entries.map(insertRow));
    }
  }

  /**
   * For what an owner must hold whatever the ledger says: what is missing is intended, and all of it comes into this order, which undoing
   * needs. What the owner holds besides keeps its place. Answers what was missing.
   */
  async restore(owner: string, items: readonly LedgerItem[]): Promise<readonly LedgerItem[]> {
    const known = this.#byOwner.get(owner) ?? new Map<string, Held>();
    const missing = items.filter(({ kind, key }) => !known.has(nameOf(kind, key)));
    const places = items.map(({ kind, key }) => known.get(nameOf(kind, key))?.entry.seq ?? NaN);
    if (places.every((seq, i) => i === 0 || seq > (places[i - 1] ?? NaN)) && missing.length === 0) return missing;
    const restored = items.map((item): Held => {
      const held = known.get(nameOf(item.kind, item.key));
      const seq = ++this.#seq;
      if (held !== undefined) return { db: held.db, entry: { ...held.entry, seq } };
      const { kind, key, data = {} } = item;
      const entry = { owner, kind, key, data, state: 'intended', seq, sinceWallMs: this.#clock.wallMs() } as const;
      return { db: item.volatile ? this.#volatile : this.#durable, entry };
    });
    for (const { db, entry } of restored) this.#remember(db, entry);
    for (const db of [this.#durable, this.#volatile]) {
      const rows = restored.filter((held) => held.db === db).map(({ entry }) => insertRow(entry));
      if (rows.length > 0) await db.write(...rows);
    }
    return missing;
  }

  /** Confirms an intent. `data`, when given, replaces what was noted with it. */
  async hold(owner: string, kind: string, key: string, data?: Readonly<Record<string, unknown>>): Promise<void> {
    const held = this.#byOwner.get(owner)?.get(nameOf(kind, key));
    if (held === undefined) throw internal(`ledger: ${owner} never intended ${kind} ${key}`);
    const entry: LedgerEntry = { ...held.entry, state: 'held', ...(data === undefined ? {} : { data }) };
    this.#remember(held.db, entry);
    await held.db.write(insertRow(entry));
  }

  /** Forgets an entry whose thing is gone; not what was acquired under the same name since: a release that hung can be as late as that. */
  async forget(entry: Pick<LedgerEntry, 'owner' | 'kind' | 'key' | 'seq'>): Promise<void> {
    const owned = this.#byOwner.get(entry.owner);
    const name = nameOf(entry.kind, entry.key);
    const held = owned?.get(name);
    if (owned === undefined || held === undefined || held.entry.seq !== entry.seq) return;
    await held.db.write(deleteRow(entry));
    if (owned.get(name)?.entry.seq !== entry.seq) return;
    owned.delete(name);
    if (owned.size === 0) this.#byOwner.delete(entry.owner);
  }

  /**
   * Releases what the owner holds, last acquired first. One that cannot be released does not stop the others: it stays
   * in the ledger and is returned. `only` limits the release to some kinds, or to some entries.
   */
  async release(
    op: Op,
    owner: string,
    releasers: Releasers,
    only?: readonly string[] | ((entry: LedgerEntry) => boolean),
  ): Promise<ReleaseFailure[]> {
    const failures: ReleaseFailure[] = [];
    const isMeant = typeof only === 'function' ? only : ({ kind }: LedgerEntry) => only?.includes(kind) !== false;
    for (const entry of this.entriesOf(owner).reverse()) {
      if (!isMeant(entry)) continue;
      const releaser = releasers[entry.kind];
      try {
        if (releaser === undefined) throw internal(`nothing knows how to release a ${entry.kind}`);
        await releaser(op, entry);
        await this.forget(entry);
      } catch (error) {
        op.log.warn({ owner, kind: entry.kind, key: entry.key, error: messageOf(error) }, 'release failed');
        failures.push({ entry, error });
      }
    }
    return failures;
  }

  /** In order of acquisition. */
  entriesOf(owner: string): LedgerEntry[] {
    const owned = this.#byOwner.get(owner);
    return owned === undefined ? [] : [...owned.values()].map((held) => held.entry).sort((a, b) => a.seq - b.seq);
  }

  owners(): string[] {
    return [...this.#byOwner.keys()];
  }

  #remember(db: Database, entry: LedgerEntry): void {
    let owned = this.#byOwner.get(entry.owner);
    if (owned === undefined) this.#byOwner.set(entry.owner, (owned = new Map<string, Held>()));
    owned.set(nameOf(entry.kind, entry.key), { entry, db });
  }
}

function nameOf(kind: string, key: string): string {
  return `${kind}\0${key}`;
}
