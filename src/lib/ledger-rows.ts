import { internal } from './errors.ts';
import type { Statement } from './store/store-thread.ts';

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

/** Of a ledger's database. What cannot be read is kept beside it, with the reason. */
export const LEDGER_SCHEMA = `
  CREATE TABLE IF NOT EXISTS ledger (
    owner TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL,
    seq INTEGER NOT NULL, state TEXT NOT NULL, data TEXT NOT NULL, since_wall_ms INTEGER NOT NULL,
    PRIMARY KEY (owner, kind, key)
  ) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS ledger_damaged (
    owner TEXT, kind TEXT, key TEXT, seq, state, data, since_wall_ms, reason TEXT NOT NULL, found_wall_ms INTEGER NOT NULL
  );`;

/** Numbers as text: one beyond JavaScript's would fail the reading of all rows. */
export const READ_LEDGER = `
  SELECT owner, kind, key, CAST(seq AS TEXT) AS seq, state, data, CAST(since_wall_ms AS TEXT) AS since_wall_ms FROM ledger`;

/** As it stands in the database, where any column may be anything. */
export type LedgerRow = Readonly<
  Record<'owner' | 'kind' | 'key' | 'seq' | 'state' | 'data' | 'since_wall_ms', unknown>
>;

/** An entry, and what could not be read of it: without that it says the least that it may have said. */
export interface ReadEntry {
  readonly entry: Omit<LedgerEntry, 'seq'>;
  /** Absent: that is what could not be read. */
  readonly seq?: number;
  readonly flaw?: string;
}

/** Throws when it does not say what to release, and how. */
export function readRow(row: LedgerRow, nowWallMs: number): ReadEntry {
  const { owner, kind, key, state } = row;
  if (typeof owner !== 'string' || typeof kind !== 'string' || typeof key !== 'string') {
    throw internal('what it names is no text');
  }
  const data = readData(row.data);
  const seq = wholeNumber(row.seq);
  const sinceWallMs = wholeNumber(row.since_wall_ms);
  const isState = state === 'intended' || state === 'held';
  const flaws = [
    ...(seq === undefined ? [`its place ${shown(row.seq)} is no number`] : []),
    ...(isState ? [] : [`its state ${shown(state)} is none`]),
    ...(sinceWallMs === undefined ? [`its time ${shown(row.since_wall_ms)} is no number`] : []),
  ];
  return {
    // "It may be there" is true of whatever it was.
    entry: { owner, kind, key, data, state: isState ? state : 'intended', sinceWallMs: sinceWallMs ?? nowWallMs },
    ...(seq === undefined ? {} : { seq }),
    ...(flaws.length === 0 ? {} : { flaw: flaws.join(', ') }),
  };
}

function readData(text: unknown): Record<string, unknown> {
  if (typeof text !== 'string') throw internal('its data is no text');
  const data: unknown = JSON.parse(text);
  if (typeof data !== 'object' || data === null || Array.isArray(data)) throw internal('its data is no object');
  return data as Record<string, unknown>;
}

function wholeNumber(value: unknown): number | undefined {
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : NaN;
  return Number.isSafeInteger(number) && number >= 0 ? number : undefined;
}

function shown(value: unknown): string {
  return JSON.stringify(String(value).slice(0, 40));
}

export function insertRow(entry: LedgerEntry): Statement {
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

const THIS_ROW = 'owner = ? AND kind = ? AND key = ?';

export function deleteRow({ owner, kind, key }: Pick<LedgerEntry, 'owner' | 'kind' | 'key'>): Statement {
  return { sql: `DELETE FROM ledger WHERE ${THIS_ROW}`, params: [owner, kind, key] };
}

/** To be written together. */
export function setRowAside(row: LedgerRow, reason: string, nowWallMs: number): Statement[] {
  const name = [row.owner, row.kind, row.key] as (string | number | Uint8Array)[];
  return [
    {
      sql: `INSERT INTO ledger_damaged (owner, kind, key, seq, state, data, since_wall_ms, reason, found_wall_ms)
            SELECT owner, kind, key, seq, state, data, since_wall_ms, ?, ? FROM ledger WHERE ${THIS_ROW}`,
      params: [reason, Math.round(nowWallMs), ...name],
    },
    { sql: `DELETE FROM ledger WHERE ${THIS_ROW}`, params: name },
  ];
}
