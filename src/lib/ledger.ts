import type { Op } from './abort.ts';
import type { Clock } from './clock.ts';
import { internal, messageOf } from './errors.ts';
import type { Database } from './store/store-thread.ts';

/**
 * What we hold outside this process: mounts, network namespaces, addresses, cgroups, directories, monitors, names.
 * The intent is written before anything is acquired and confirmed afterwards, so that after a `kill -9` at any step the next
 * process knows what may be there. Undoing reads the entries of an owner backwards.
 */
export interface LedgerEntry {
  /** Order of acquisition over the whole ledger. */
  readonly seq: number;
  /** Whose it is: `sandbox/<id>`, `container/<id>`, `network/<name>`. */
  readonly owner: string;
  /** What it is: the key into the table of releasers (`mount`, `netns`, `cni`, `cgroup`, `directory`, `monitor` …). */
  readonly kind: string;
  /** Which one: a path, a name. Unique together with owner and kind. */
  readonly key: string;
  /** All that releasing it needs, even when the configuration that made it is gone (FAILURES.md row 31). */
  readonly data: Readonly<Record<string, unknown>>;
  /** `intended`: it may or may not exist. `held`: it was there. */
  readonly state: 'intended' | 'held';
  readonly sinceWallMs: number;
}

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

export const LEDGER_SCHEMA = `
  CREATE TABLE IF NOT EXISTS ledger (
    owner TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL,
    seq INTEGER NOT NULL, state TEXT NOT NULL, data TEXT NOT NULL, since_wall_ms INTEGER NOT NULL,
    PRIMARY KEY (owner, kind, key)
  ) WITHOUT ROWID;`;

interface Row {
  readonly owner: string;
  readonly kind: string;
  readonly key: string;
  readonly seq: number;
  readonly state: 'intended' | 'held';
  readonly data: string;
  readonly since_wall_ms: number;
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
  #seq = 0;

  private constructor(clock: Clock, durable: Database, volatile: Database) {
    this.#clock = clock;
    this.#durable = durable;
    this.#volatile = volatile;
  }

  /** Reads what earlier processes left. Both databases carry {@link LEDGER_SCHEMA}. */
  static async open(clock: Clock, durable: Database, volatile: Database): Promise<Ledger> {
    const ledger = new Ledger(clock, durable, volatile);
    for (const db of [durable, volatile]) {
      for (const row of await db.read<Row>('SELECT * FROM ledger')) {
        ledger.#seq = Math.max(ledger.#seq, row.seq);
        ledger.#remember(db, {
          owner: row.owner,
          kind: row.kind,
          key: row.key,
          seq: row.seq,
          state: row.state,
          data: JSON.parse(row.data) as Record<string, unknown>,
          sinceWallMs: row.since_wall_ms,
        });
      }
    }
    return ledger;
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
      await db.write(...entries.map(insert));
    }
  }

  /** Confirms an intent. `data`, when given, replaces what was noted with it. */
  async hold(owner: string, kind: string, key: string, data?: Readonly<Record<string, unknown>>): Promise<void> {
    const held = this.#byOwner.get(owner)?.get(nameOf(kind, key));
    if (held === undefined) throw internal(`ledger: ${owner} never intended ${kind} ${key}`);
    const entry: LedgerEntry = { ...held.entry, state: 'held', ...(data === undefined ? {} : { data }) };
    this.#remember(held.db, entry);
    await held.db.write(insert(entry));
  }

  /** Forgets an entry whose thing is gone. */
  async forget(entry: Pick<LedgerEntry, 'owner' | 'kind' | 'key'>): Promise<void> {
    const owned = this.#byOwner.get(entry.owner);
    const held = owned?.get(nameOf(entry.kind, entry.key));
    if (owned === undefined || held === undefined) return;
    await held.db.write({
      sql: 'DELETE FROM ledger WHERE owner = ? AND kind = ? AND key = ?',
      params: [entry.owner, entry.kind, entry.key],
    });
    owned.delete(nameOf(entry.kind, entry.key));
    if (owned.size === 0) this.#byOwner.delete(entry.owner);
  }

  /**
   * Releases what the owner holds, last acquired first. One that cannot be released does not stop the others: it stays
   * in the ledger and is returned. `only` limits the release to some kinds.
   */
  async release(op: Op, owner: string, releasers: Releasers, only?: readonly string[]): Promise<ReleaseFailure[]> {
    const failures: ReleaseFailure[] = [];
    for (const entry of this.entriesOf(owner).reverse()) {
      if (only !== undefined && !only.includes(entry.kind)) continue;
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

function insert(entry: LedgerEntry): { sql: string; params: (string | number)[] } {
  return {
    sql: 'INSERT OR REPLACE INTO ledger (owner, kind, key, seq, state, data, since_wall_ms) VALUES (?, ?, ?, ?, ?, ?, ?)',
    params: [
      entry.owner,
      entry.kind,
      entry.key,
      entry.seq,
      entry.state,
      JSON.stringify(entry.data),
      Math.round(entry.sinceWallMs),
    ],
  };
}
