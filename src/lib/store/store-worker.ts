import { existsSync, renameSync } from 'node:fs';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { parentPort, receiveMessageOnPort } from 'node:worker_threads';
import type { StoreReply, StoreRequest, Statement } from './protocol.ts';

/**
 * The store thread: the only place where SQLite is called, so that an fsync under I/O pressure stalls this thread and
 * never the main one. Writes that wait together are committed together (one fsync for all); each keeps a savepoint
 * of its own, so that one that fails takes no other with it.
 */

interface OpenDatabase {
  readonly db: DatabaseSync;
  readonly prepared: Map<string, StatementSync>;
}

const SQLITE_CORRUPT = 11;
const SQLITE_NOTADB = 26;
const MAX_PREPARED = 200;

const databases = new Map<number, OpenDatabase>();
const port = parentPort;
if (port === null) throw new Error('store-worker.ts runs as a worker thread only');

function openAt(path: string, schema: string, durable: boolean): DatabaseSync {
  const db = new DatabaseSync(path);
  try {
    db.exec(
      `PRAGMA journal_mode=WAL; PRAGMA synchronous=${durable ? 'FULL' : 'OFF'}; PRAGMA busy_timeout=5000; PRAGMA foreign_keys=ON;`,
    );
    db.exec(schema);
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

/** Opens the file; one that is no database is set aside under a new name, and an empty one takes its place. */
function open(request: StoreRequest & { kind: 'open' }): { setAside?: string } {
  let setAside: string | undefined;
  let db: DatabaseSync;
  try {
    db = openAt(request.path, request.schema, request.durable);
  } catch (error) {
    const code = sqliteCode(error);
    if (code !== SQLITE_CORRUPT && code !== SQLITE_NOTADB) throw error;
    setAside = freeName(`${request.path}.damaged`);
    for (const suffix of ['', '-wal', '-shm']) {
      if (existsSync(request.path + suffix)) renameSync(request.path + suffix, setAside + suffix);
    }
    db = openAt(request.path, request.schema, request.durable);
  }
  databases.set(request.database, { db, prepared: new Map() });
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

function failure(seq: number, error: unknown): StoreReply {
  const code = sqliteCode(error);
  return {
    seq,
    ok: false,
    message: error instanceof Error ? error.message : String(error),
    ...(code === undefined ? {} : { sqliteCode: code }),
  };
}

/** Commits a run of writes to one database with one transaction. */
function writeGroup(database: number, group: readonly (StoreRequest & { kind: 'write' })[]): StoreReply[] {
  const open = databases.get(database);
  if (open === undefined) return group.map((request) => failure(request.seq, new Error('the database is closed')));
  const replies: StoreReply[] = [];
  try {
    open.db.exec('BEGIN IMMEDIATE');
    for (const request of group) {
      open.db.exec('SAVEPOINT one');
      try {
        for (const statement of request.statements) run(open, statement);
        open.db.exec('RELEASE one');
        replies.push({ seq: request.seq, ok: true });
      } catch (error) {
        open.db.exec('ROLLBACK TO one; RELEASE one');
        replies.push(failure(request.seq, error));
      }
    }
    open.db.exec('COMMIT');
    return replies;
  } catch (error) {
    // The commit itself failed (disk full, I/O error): none of the group is on disk.
    if (open.db.isTransaction) open.db.exec('ROLLBACK');
    return group.map((request) => failure(request.seq, error));
  }
}

function answer(request: StoreRequest & { kind: 'open' | 'read' | 'close' }): StoreReply {
  try {
    switch (request.kind) {
      case 'open':
        return { seq: request.seq, ok: true, value: open(request) };
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
    const group: (StoreRequest & { kind: 'write' })[] = [];
    for (; i < waiting.length; i++) {
      const candidate = waiting[i];
      if (candidate?.kind !== 'write' || candidate.database !== request.database) break;
      group.push(candidate);
    }
    replies.push(...writeGroup(request.database, group));
  }
  port.postMessage(replies);
});
