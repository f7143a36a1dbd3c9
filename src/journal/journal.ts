import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { isKind, messageOf } from '../lib/errors.ts';
import type { Database, SqlValue, Statement } from '../lib/store/store-thread.ts';

/** Which object an entry is about. As many as are known; a query matches any that it names. */
export interface JournalSubject {
  readonly podUid?: string;
  readonly podNamespace?: string;
  readonly podName?: string;
  readonly sandboxId?: string;
  readonly containerId?: string;
  readonly containerName?: string;
  readonly image?: string;
}

export interface JournalInput {
  readonly subject: JournalSubject;
  /** Machine-readable name of the step: `container.exited`, `sandbox.network-ready`, `volume.teardown-blocked`. */
  readonly what: string;
  /** One sentence for a person, without the subject's name. */
  readonly message: string;
  /** What made it happen: `deleted by the user`, `liveness probe failed`, `restart policy Always`. */
  readonly why?: string;
  readonly outcome?: 'ok' | 'failed' | 'blocked';
  /** How long the step took. */
  readonly durationMs?: number;
  readonly data?: Readonly<Record<string, unknown>>;
}

export interface JournalEntry extends JournalInput {
  readonly seq: number;
  readonly wallMs: number;
  readonly bootId: string;
}

/** The half that runtime and agent see. Recording never waits and never fails its caller. */
export interface JournalWriter {
  record(input: JournalInput): void;
}

export interface JournalReader {
  /** Entries that carry every given subject field, oldest first; the newest `limit` of them (default 1000). */
  query(subject: JournalSubject, limit?: number): Promise<JournalEntry[]>;
}

export const JOURNAL_SCHEMA = `
  CREATE TABLE IF NOT EXISTS journal (
    seq INTEGER PRIMARY KEY, wall_ms INTEGER NOT NULL, boot_id TEXT NOT NULL, what TEXT NOT NULL, message TEXT NOT NULL,
    pod_uid TEXT, pod_namespace TEXT, pod_name TEXT, sandbox_id TEXT, container_id TEXT, container_name TEXT, image TEXT,
    why TEXT, outcome TEXT, duration_ms REAL, data TEXT
  );
  CREATE INDEX IF NOT EXISTS journal_pod ON journal (pod_namespace, pod_name, seq);
  CREATE INDEX IF NOT EXISTS journal_uid ON journal (pod_uid, seq);
  CREATE INDEX IF NOT EXISTS journal_sandbox ON journal (sandbox_id, seq);
  CREATE INDEX IF NOT EXISTS journal_container ON journal (container_id, seq);`;

const SUBJECT_COLUMNS = {
  podUid: 'pod_uid',
  podNamespace: 'pod_namespace',
  podName: 'pod_name',
  sandboxId: 'sandbox_id',
  containerId: 'container_id',
  containerName: 'container_name',
  image: 'image',
} as const satisfies Record<keyof JournalSubject, string>;

const SUBJECT_KEYS = Object.keys(SUBJECT_COLUMNS) as (keyof JournalSubject)[];

/** Older entries are dropped, so that a box that runs for years keeps a bounded journal. */
const MAX_ENTRIES = 200_000;
const TRIM_EVERY = 1_000;

/** So many entries wait in memory for a disk that is full; the oldest go first. */
const MAX_WAITING = 2_000;
const WRITE_AGAIN_MS = 5_000;

type Row = Record<string, SqlValue>;

/** The durable record of what happened to each pod and why: rows of one SQLite table, written by the store thread. */
export class Journal implements JournalWriter, JournalReader {
  readonly #db: Database;
  readonly #clock: Clock;
  readonly #bootId: string;
  readonly #log: Log;
  /** Not on disk yet: it is full. By number, in order. */
  readonly #waiting = new Map<number, { readonly entry: JournalEntry; readonly statement: Statement }>();
  #retrying = false;
  #seq: number;

  private constructor(db: Database, clock: Clock, bootId: string, log: Log, lastSeq: number) {
    this.#db = db;
    this.#clock = clock;
    this.#bootId = bootId;
    this.#log = log;
    this.#seq = lastSeq;
  }

  static async open(db: Database, clock: Clock, bootId: string, log: Log): Promise<Journal> {
    const rows = await db.read<{ last: number | null }>('SELECT max(seq) AS last FROM journal');
    return new Journal(db, clock, bootId, log, rows[0]?.last ?? 0);
  }

  record(input: JournalInput): void {
    const seq = ++this.#seq;
    const entry = { ...input, seq, wallMs: Math.round(this.#clock.wallMs()), bootId: this.#bootId };
    const statement = insert(entry);
    const trim =
      seq % TRIM_EVERY === 0 ? [{ sql: 'DELETE FROM journal WHERE seq <= ?', params: [seq - MAX_ENTRIES] }] : [];
    this.#db.write(statement, ...trim).catch((error: unknown) => {
      if (isKind(error, 'ResourceExhausted')) this.#keep(entry, statement);
      else this.#log.warn({ what: input.what, error: messageOf(error) }, 'journal entry lost');
    });
  }

  /** What happens on a full disk is what people want to be told afterwards. */
  #keep(entry: JournalEntry, statement: Statement): void {
    this.#waiting.set(entry.seq, { entry, statement });
    const [oldest] = this.#waiting.keys();
    if (this.#waiting.size > MAX_WAITING && oldest !== undefined) {
      this.#waiting.delete(oldest);
      this.#log.warn({ seq: oldest }, 'journal entry lost: too many wait for a full disk');
    }
    this.#writeAgainLater();
  }

  #writeAgainLater(): void {
    if (this.#retrying) return;
    this.#retrying = true;
    this.#clock.after(WRITE_AGAIN_MS, () => {
      void this.#writeWaiting().finally(() => {
        this.#retrying = false;
        if (this.#waiting.size > 0) this.#writeAgainLater();
      });
    });
  }

  async #writeWaiting(): Promise<void> {
    const batch = [...this.#waiting];
    try {
      await this.#db.write(...batch.map(([, { statement }]) => statement));
    } catch (error) {
      if (isKind(error, 'ResourceExhausted')) return;
      this.#log.warn({ entries: batch.length, error: messageOf(error) }, 'journal entries lost');
    }
    for (const [seq] of batch) this.#waiting.delete(seq);
  }

  async query(subject: JournalSubject, limit = 1000): Promise<JournalEntry[]> {
    const keys = SUBJECT_KEYS.filter((key) => subject[key] !== undefined);
    const where = keys.length === 0 ? '' : `WHERE ${keys.map((key) => `${SUBJECT_COLUMNS[key]} = ?`).join(' AND ')}`;
    const rows = await this.#db.read<Row>(
      `SELECT * FROM (SELECT * FROM journal ${where} ORDER BY seq DESC LIMIT ?) ORDER BY seq`,
      ...keys.map((key) => subject[key] ?? null),
      limit,
    );
    const written = rows.map(entryOf);
    const waiting = [...this.#waiting.values()]
      .map(({ entry }) => entry)
      .filter((entry) => keys.every((key) => entry.subject[key] === subject[key]))
      .filter(({ seq }) => written.every((row) => row.seq !== seq));
    return [...written, ...waiting].sort((a, b) => a.seq - b.seq).slice(-limit);
  }
}

function insert({ subject, ...entry }: JournalEntry): Statement {
  return {
    sql: `INSERT OR REPLACE INTO journal (seq, wall_ms, boot_id, what, message, why, outcome, duration_ms, data,
            ${SUBJECT_KEYS.map((key) => SUBJECT_COLUMNS[key]).join(', ')})
          VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ${SUBJECT_KEYS.map(() => '?').join(', ')})`,
    params: [
      entry.seq,
      entry.wallMs,
      entry.bootId,
      entry.what,
      entry.message,
      entry.why ?? null,
      entry.outcome ?? null,
      entry.durationMs ?? null,
      entry.data === undefined ? null : JSON.stringify(entry.data),
      ...SUBJECT_KEYS.map((key) => subject[key] ?? null),
    ],
  };
}

function entryOf(row: Row): JournalEntry {
  const subject: Record<string, string> = {};
  for (const key of SUBJECT_KEYS) {
    const value = row[SUBJECT_COLUMNS[key]];
    if (typeof value === 'string') subject[key] = value;
  }
  return {
    seq: Number(row['seq']),
    wallMs: Number(row['wall_ms']),
    bootId: String(row['boot_id']),
    subject,
    what: String(row['what']),
    message: String(row['message']),
    ...(typeof row['why'] === 'string' ? { why: row['why'] } : {}),
    ...(typeof row['outcome'] === 'string' ? { outcome: row['outcome'] as 'ok' | 'failed' | 'blocked' } : {}),
    ...(typeof row['duration_ms'] === 'number' ? { durationMs: row['duration_ms'] } : {}),
    ...(typeof row['data'] === 'string' ? { data: JSON.parse(row['data']) as Record<string, unknown> } : {}),
  };
}
