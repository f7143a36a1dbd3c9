import { existsSync, renameSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { parentPort, receiveMessageOnPort } from 'node:worker_threads';
import type { Durability, ReserveState, StoreAnswer, StoreReply, StoreRequest, Statement } from './protocol.ts';
import { systemClock } from '../clock.ts';
import { keepPrivate } from './private-files.ts';
import { freeBytes, ReserveFile } from './reserve-file.ts';

/**
 * The store thread: the only place where SQLite is called, so that an fsync under I/O pressure stalls this thread and
 * never the main one. Writes that wait together are committed together (one fsync for all); each keeps a savepoint
 * of its own, so that one that fails takes no other with it.
 *
 * On a full disk a database writes within its own files, which are kept a little larger than they need be; when that does not do, a
 * piece of its reserve is given up at a time.
 */

interface OpenDatabase {
  readonly db: DatabaseSync;
  readonly prepared: Map<string, StatementSync>;
  readonly path: string;
  readonly reserve: string | undefined;
  readonly durable: Durability;
  /** Something is committed that no fsync has followed yet. */
  unsynced: boolean;
}

type WriteRequest = StoreRequest & { kind: 'write' };

const SQLITE_CORRUPT = 11;
const SQLITE_NOTADB = 26;
const SQLITE_FULL = 13;
/** What a failed allocation for the index beside the log, or for a new file, is reported as. */
const SQLITE_MAYBE_FULL = [10 /* IOERR */, 14 /* CANTOPEN */];
const NEXT_TO_NOTHING_BYTES = 128 << 10;
const MAX_PREPARED = 200;
/** SQLite's own; and while the disk is full: the log then goes round in the room that it has. */
const CHECKPOINT_PAGES = 1_000;
const CHECKPOINT_PAGES_WHEN_FULL = 32;
/** What a database and its log have room for without growing. */
const SLACK_BYTES = 512 << 10;
const PAGE_BYTES = 4 << 10;

/** How long a commit of a database that is durable `soon` may be unsynced. */
const SYNC_MS = 1_000;

const databases = new Map<number, OpenDatabase>();
const reserves = new Map<string, ReserveFile>();
/** Reserves of which something was given up since the last message. */
const given = new Set<ReserveFile>();
const port = parentPort;
if (port === null) throw new Error('store-worker.ts runs as a worker thread only');

interface OpenHow {
  readonly path: string;
  readonly schema: string;
  readonly durable: Durability;
}

/** With NORMAL the log is synced only before it is written back into the file. */
const SYNCHRONOUS: Readonly<Record<string, string>> = { true: 'FULL', soon: 'NORMAL', false: 'OFF' };

/** @param exclusive without the shared index beside the log: for a disk that has no room for one */
function openOnce({ path, schema, durable }: OpenHow, exclusive: boolean): DatabaseSync {
  keepPrivate(path);
  const db = new DatabaseSync(path);
  try {
    if (exclusive) db.exec('PRAGMA locking_mode=EXCLUSIVE');
    db.exec(
      `PRAGMA journal_mode=WAL; PRAGMA synchronous=${SYNCHRONOUS[String(durable)]}; PRAGMA busy_timeout=5000; PRAGMA foreign_keys=ON;`,
    );
    db.exec(schema);
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

function openAt(how: OpenHow, reserve: string | undefined): DatabaseSync {
  for (;;) {
    try {
      return openOnce(how, false);
    } catch (error) {
      if (!isFull(error, how.path)) throw error;
      if (!giveRoom(reserve)) return openOnce(how, true);
    }
  }
}

/** Opens the file; one that is no database is set aside under a new name, and an empty one takes its place. */
function open(request: StoreRequest & { kind: 'open' }): { setAside?: string } {
  let setAside: string | undefined;
  let db: DatabaseSync;
  try {
    db = openAt(request, request.reserve);
  } catch (error) {
    const code = sqliteCode(error);
    if (code !== SQLITE_CORRUPT && code !== SQLITE_NOTADB) throw error;
    setAside = freeName(`${request.path}.damaged`);
    for (const suffix of ['', '-wal', '-shm']) {
      if (existsSync(request.path + suffix)) renameSync(request.path + suffix, setAside + suffix);
    }
    db = openAt(request, request.reserve);
  }
  const opened: OpenDatabase = {
    db,
    prepared: new Map(),
    path: request.path,
    reserve: request.reserve,
    durable: request.durable,
    unsynced: false,
  };
  databases.set(request.database, opened);
  keepSlack(opened);
  return setAside === undefined ? {} : { setAside };
}

/** The first of `path-1`, `path-2` … that is not taken: what was set aside earlier stays. */
function freeName(path: string): string {
  for (let n = 1; ; n++) {
    if (!existsSync(`${path}-${n}`)) return `${path}-${n}`;
  }
}

function prepare(open: OpenDatabase, sql: string): StatementSync {
  let statement = open.prepared.get(sql);
  if (statement === undefined) {
    if (open.prepared.size >= MAX_PREPARED) open.prepared.clear();
    statement = open.db.prepare(sql);
    open.prepared.set(sql, statement);
  }
  return statement;
}

function run(open: OpenDatabase, { sql, params = [] }: Statement): void {
  prepare(open, sql).run(...params);
}

function sqliteCode(error: unknown): number | undefined {
  if (error instanceof Error && 'errcode' in error && typeof error.errcode === 'number') return error.errcode & 0xff;
  return undefined;
}

function isFull(error: unknown, path: string): boolean {
  const code = sqliteCode(error);
  if (code === SQLITE_FULL) return true;
  if (code === undefined || !SQLITE_MAYBE_FULL.includes(code)) return false;
  try {
    return freeBytes(dirname(path)) < NEXT_TO_NOTHING_BYTES;
  } catch {
    return false;
  }
}

function giveRoom(path: string | undefined): boolean {
  const reserve = path === undefined ? undefined : reserves.get(path);
  if (reserve?.give() !== true) return false;
  given.add(reserve);
  return true;
}

/** What is in the log goes to where it belongs, so that the log can begin anew in the room that it has. */
function checkpoint(open: OpenDatabase, pragmas = ''): void {
  try {
    open.db.exec(`${pragmas}PRAGMA wal_checkpoint(PASSIVE)`);
  } catch {
    // No room for that either: the log stays as it is.
  }
}

/** Written and dropped again, bytes leave their pages behind in the file, and their room in the log. Not while the disk is short. */
function keepSlack(open: OpenDatabase): void {
  const reserve = open.reserve === undefined ? undefined : reserves.get(open.reserve)?.state();
  if (reserve === undefined || reserve.leftBytes < reserve.bytes) return;
  try {
    const free = Object.values(open.db.prepare('PRAGMA freelist_count').get() ?? {})[0];
    const log = statSync(`${open.path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
    if (Number(free) * PAGE_BYTES >= SLACK_BYTES / 2 && log >= SLACK_BYTES) return;
    open.db.exec(
      `CREATE TABLE IF NOT EXISTS slack (bytes BLOB); INSERT INTO slack VALUES (randomblob(${SLACK_BYTES}));
       PRAGMA wal_checkpoint(PASSIVE); DROP TABLE slack`,
    );
  } catch {
    // It has what it has.
    if (open.db.isTransaction) open.db.exec('ROLLBACK');
  }
}

function fill(path: string): ReserveState {
  let reserve = reserves.get(path);
  if (reserve === undefined) reserves.set(path, (reserve = new ReserveFile(path)));
  else reserve.fill();
  const state = reserve.state();
  if (state.leftBytes === state.bytes) {
    for (const open of databases.values()) {
      open.db.exec(`PRAGMA wal_autocheckpoint=${CHECKPOINT_PAGES}`);
      keepSlack(open);
    }
  }
  return state;
}

function failure(seq: number, error: unknown, open?: OpenDatabase): StoreAnswer {
  const full = open !== undefined && isFull(error, open.path);
  const code = full ? SQLITE_FULL : sqliteCode(error);
  return {
    seq,
    ok: false,
    message: full ? `the disk of ${open.path} is full` : error instanceof Error ? error.message : String(error),
    ...(code === undefined ? {} : { sqliteCode: code }),
  };
}

/** Commits a run of writes to one database with one transaction. */
function writeGroup(database: number, group: readonly WriteRequest[]): StoreAnswer[] {
  const open = databases.get(database);
  if (open === undefined) return group.map((request) => failure(request.seq, new Error('the database is closed')));
  for (let tries = 0; ; tries++) {
    try {
      return commitGroup(open, group);
    } catch (error) {
      // The commit itself failed (disk full, I/O error): none of the group is on disk.
      if (open.db.isTransaction) open.db.exec('ROLLBACK');
      if (isFull(error, open.path)) {
        if (tries === 0 || giveRoom(open.reserve)) {
          checkpoint(open, `PRAGMA wal_autocheckpoint=${CHECKPOINT_PAGES_WHEN_FULL};`);
          continue;
        }
        // A small one may find room where all together do not.
        if (group.length > 1) return group.flatMap((request) => writeGroup(database, [request]));
      }
      return group.map((request) => failure(request.seq, error, open));
    }
  }
}

function commitGroup(open: OpenDatabase, group: readonly WriteRequest[]): StoreAnswer[] {
  const replies: StoreAnswer[] = [];
  open.db.exec('BEGIN IMMEDIATE');
  for (const request of group) {
    open.db.exec('SAVEPOINT one');
    try {
      for (const statement of request.statements) run(open, statement);
      open.db.exec('RELEASE one');
      replies.push({ seq: request.seq, ok: true });
    } catch (error) {
      // SQLite may have rolled back all of it by itself then.
      if (isFull(error, open.path) || !open.db.isTransaction) throw error;
      open.db.exec('ROLLBACK TO one; RELEASE one');
      replies.push(failure(request.seq, error));
    }
  }
  open.db.exec('COMMIT');
  if (open.durable === 'soon') syncSoon(open);
  return replies;
}

/** One fsync for all that is committed within a second. */
function syncSoon(open: OpenDatabase): void {
  if (open.unsynced) return;
  open.unsynced = true;
  systemClock.after(SYNC_MS, () => {
    open.unsynced = false;
    if (open.db.isOpen) checkpoint(open);
  });
}

function answer(request: Exclude<StoreRequest, WriteRequest>): StoreAnswer {
  try {
    switch (request.kind) {
      case 'open':
        return { seq: request.seq, ok: true, value: open(request) };
      case 'reserve':
        return { seq: request.seq, ok: true, value: fill(request.path) };
      case 'read': {
        const opened = databases.get(request.database);
        if (opened === undefined) throw new Error('the database is closed');
        const { sql, params = [] } = request.statement;
        return { seq: request.seq, ok: true, value: prepare(opened, sql).all(...params) };
      }
      case 'close':
        databases.get(request.database)?.db.close();
        databases.delete(request.database);
        return { seq: request.seq, ok: true };
    }
  } catch (error) {
    return failure(request.seq, error);
  }
}

port.on('message', (first: StoreRequest) => {
  const waiting: StoreRequest[] = [first];
  for (let next = receiveMessageOnPort(port); next !== undefined; next = receiveMessageOnPort(port)) {
    waiting.push(next.message as StoreRequest);
  }
  const replies: StoreReply[] = [];
  for (let i = 0; i < waiting.length;) {
    const request = waiting[i];
    if (request === undefined) break;
    if (request.kind !== 'write') {
      replies.push(answer(request));
      i++;
      continue;
    }
    const group: WriteRequest[] = [];
    for (; i < waiting.length; i++) {
      const candidate = waiting[i];
      if (candidate?.kind !== 'write' || candidate.database !== request.database) break;
      group.push(candidate);
    }
    replies.push(...writeGroup(request.database, group));
  }
  for (const reserve of given) replies.push({ seq: 0, reserve: reserve.state() });
  given.clear();
  port.postMessage(replies);
});
