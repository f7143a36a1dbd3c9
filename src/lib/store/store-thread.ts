import { Worker } from 'node:worker_threads';
import { GantryError, type ErrorKind } from '../errors.ts';
import { workerUrl } from '../worker-url.ts';
import type {
  Durability,
  ReserveState,
  SqlValue,
  Statement,
  StoreAnswer,
  StoreReply,
  StoreRequest,
} from './protocol.ts';

export type { ReserveState, SqlValue, Statement } from './protocol.ts';

/** One SQLite file. Calls are carried out in the order in which they were made. */
export interface Database {
  /** All statements or none, on disk (for a durable database) when the promise resolves. */
  write(...statements: Statement[]): Promise<void>;
  read<Row>(sql: string, ...params: SqlValue[]): Promise<Row[]>;
  close(): Promise<void>;
}

export interface OpenedDatabase {
  readonly db: Database;
  /** Where a damaged file was moved to, if the file was no database any more. Say so loudly: its content is lost. */
  readonly setAside?: string;
}

export interface OpenOptions {
  readonly path: string;
  /** SQL run at every opening: `CREATE TABLE IF NOT EXISTS …`. */
  readonly schema: string;
  readonly durable: Durability;
  /** The reserve ({@link StoreThread.reserve}) on the same disk that writes may use up when it is full; without one they fail then. */
  readonly reserve?: string;
}

const SQLITE_FULL = 13;

const SQLITE_KINDS: Readonly<Record<number, ErrorKind>> = {
  5: 'Unavailable', // BUSY
  8: 'PermissionDenied', // READONLY
  10: 'Unavailable', // IOERR
  11: 'DataLoss', // CORRUPT
  13: 'ResourceExhausted', // FULL
  14: 'Unavailable', // CANTOPEN
  19: 'AlreadyExists', // CONSTRAINT
  26: 'DataLoss', // NOTADB
};

/** The thread that owns every SQLite file of this process: group commit, and no fsync on the main thread. */
export class StoreThread {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>();
  #seq = 0;
  #databases = 0;
  #dead: Error | undefined;
  #onReserve: ((state: ReserveState) => void) | undefined;

  constructor() {
    this.#worker = new Worker(workerUrl(import.meta.url, './store-worker'), { name: 'store' });
    this.#worker.unref();
    this.#worker.on('message', (replies: StoreReply[]) => {
      for (const reply of replies) {
        if ('reserve' in reply) this.#onReserve?.(reply.reserve);
        else this.#settle(reply);
      }
    });
    this.#worker.on('error', (error: Error) => {
      this.#die(error);
    });
    this.#worker.on('exit', () => {
      this.#die(new GantryError('Unavailable', 'the store thread has ended'));
    });
  }

  async open(options: OpenOptions): Promise<OpenedDatabase> {
    const database = ++this.#databases;
    const { setAside } = (await this.#ask({ kind: 'open', seq: 0, database, ...options })) as { setAside?: string };
    const db: Database = {
      write: async (...statements) => {
        await this.#ask({ kind: 'write', seq: 0, database, statements });
      },
      read: async <Row>(sql: string, ...params: SqlValue[]) =>
        (await this.#ask({ kind: 'read', seq: 0, database, statement: { sql, params } })) as Row[],
      close: async () => {
        await this.#ask({ kind: 'close', seq: 0, database });
      },
    };
    return setAside === undefined ? { db } : { db, setAside };
  }

  /**
   * Makes the reserve whole if the disk has room for it, and says how it is. On a full disk it is what an earlier process left of it.
   * It is nobody's but this thread's: a file that is there is grown or shrunk.
   */
  async reserve(path: string): Promise<ReserveState> {
    return (await this.#ask({ kind: 'reserve', seq: 0, path })) as ReserveState;
  }

  /** Called whenever a piece of a reserve was given up for a write. One listener. */
  onReserve(listener: (state: ReserveState) => void): void {
    this.#onReserve = listener;
  }

  async close(): Promise<void> {
    this.#dead ??= new GantryError('Unavailable', 'the store is closed');
    await this.#worker.terminate();
  }

  #ask(request: StoreRequest): Promise<unknown> {
    if (this.#dead !== undefined) return Promise.reject(this.#dead);
    const seq = ++this.#seq;
    const waiter = Promise.withResolvers<unknown>();
    this.#waiting.set(seq, waiter);
    // An open request keeps the process alive, an idle store does not.
    if (this.#waiting.size === 1) this.#worker.ref();
    this.#worker.postMessage({ ...request, seq });
    return waiter.promise;
  }

  #settle(reply: StoreAnswer): void {
    const waiter = this.#waiting.get(reply.seq);
    this.#waiting.delete(reply.seq);
    if (this.#waiting.size === 0) this.#worker.unref();
    if (reply.ok) waiter?.resolve(reply.value);
    else {
      const kind = (reply.sqliteCode === undefined ? undefined : SQLITE_KINDS[reply.sqliteCode]) ?? 'Internal';
      const details = reply.sqliteCode === SQLITE_FULL ? { errno: 'ENOSPC' } : {};
      waiter?.reject(new GantryError(kind, `store: ${reply.message}`, { details }));
    }
  }

  #die(error: Error): void {
    this.#dead ??= error;
    for (const waiter of this.#waiting.values()) waiter.reject(this.#dead);
    this.#waiting.clear();
  }
}
