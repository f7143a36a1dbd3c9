import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Op } from '../../../src/lib/abort.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import { GantryError, type ErrorKind } from '../../../src/lib/errors.ts';
import type { Log } from '../../../src/lib/log.ts';
import { StoreThread, type Database } from '../../../src/lib/store/store-thread.ts';
import { FakeLayerStore } from '../../../src/runtime/image/fake-layer-store.ts';
import { IMAGE_SCHEMA, ImageStore, type ImageStoreDeps } from '../../../src/runtime/image/image-store.ts';
import { RuntimePaths } from '../../../src/runtime/store/paths.ts';

/** Fast, because nothing here needs to be spared. */
const RETRY = { attempts: 4, backoff: { initialMs: 1, maxMs: 4 }, longestWaitMs: 20 };

/** An image store on a database and a folder of its own, with a layer store that keeps nothing. */
export class Fixture implements AsyncDisposable {
  readonly dir: string;
  readonly layers = new FakeLayerStore();
  /** Every log line: a test can look for secrets in it. */
  readonly logged: string[] = [];
  readonly op: Op;
  readonly #thread: StoreThread;
  readonly #db: Database;
  images: ImageStore;

  private constructor(dir: string, thread: StoreThread, db: Database) {
    this.dir = dir;
    this.#thread = thread;
    this.#db = db;
    this.op = { signal: new AbortController().signal, log: recordingLog(this.logged) };
    this.images = undefined as unknown as ImageStore;
  }

  static async open(options: Partial<ImageStoreDeps> = {}): Promise<Fixture> {
    const dir = await mkdtemp(join(tmpdir(), 'gantry-image-'));
    const thread = new StoreThread();
    const { db } = await thread.open({ path: join(dir, 'store.db'), schema: IMAGE_SCHEMA, durable: false });
    const fixture = new Fixture(dir, thread, db);
    await fixture.reopen(options);
    return fixture;
  }

  /** As after a restart of the daemon: all that is not in the database is forgotten. */
  async reopen(options: Partial<ImageStoreDeps> = {}): Promise<void> {
    this.images = await ImageStore.open({
      db: this.#db,
      layers: this.layers,
      clock: systemClock,
      log: this.op.log,
      paths: new RuntimePaths(this.dir, this.dir),
      registry: this.registryAccess(),
      ...options,
    });
  }

  registryAccess(): ImageStoreDeps['registry'] {
    return {
      configDir: join(this.dir, 'certs.d'),
      credentialFiles: [join(this.dir, 'auth.json')],
      env: {},
      retry: RETRY,
    };
  }

  /** What pulls have left behind: nothing is right. */
  async leftovers(): Promise<string[]> {
    return await readdir(join(this.dir, 'image', 'ingest'));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.images.close();
    await this.#thread.close();
    await rm(this.dir, { recursive: true, force: true });
  }
}

function recordingLog(lines: string[]): Log {
  const write = (fields: Record<string, unknown>, message: string): void => {
    lines.push(`${message} ${JSON.stringify(fields)}`);
  };
  const log: Log = { debug: write, info: write, warn: write, error: write, child: () => log };
  return log;
}

/** For assert.rejects: an error of that kind whose message matches. */
export function failsWith(kind: ErrorKind, message: RegExp): (error: unknown) => boolean {
  return (error) => {
    if (error instanceof GantryError && error.kind === kind && message.test(error.message)) return true;
    throw new Error(
      `expected ${kind} ${String(message)}, got ${error instanceof GantryError ? error.kind : ''}: ${String(error)}`,
    );
  };
}
