import type { Op } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import { workerUrl } from '../lib/worker-url.ts';
import { PeerPool, processPeer } from './peer-pool.ts';

/** What the helper process is asked. */
export type HangSafeRequest =
  | { readonly call: 'umount2'; readonly target: string; readonly flags: number }
  | { readonly call: 'stat'; readonly path: string }
  | { readonly call: 'statfs'; readonly path: string }
  | { readonly call: 'realpath'; readonly path: string }
  | { readonly call: 'mkdir'; readonly path: string; readonly mode: number }
  | { readonly call: 'makeFile'; readonly path: string; readonly mode: number }
  | { readonly call: 'list'; readonly path: string }
  | { readonly call: 'readFile'; readonly path: string; readonly maxBytes: number }
  | { readonly call: 'fileEnd'; readonly path: string; readonly bytes: number }
  | {
      readonly call: 'mountFrom';
      readonly directory: string;
      readonly source: string;
      readonly target: string;
      readonly type: string;
      readonly flags: number;
      readonly data: string;
    };

export interface PathStat {
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly sizeBytes: number;
  readonly dev: number;
  readonly ino: number;
  /** dev_t, of a device. */
  readonly rdev: number;
}

export interface FolderEntry {
  readonly name: string;
  /** Of the entry itself: a symbolic link is `other`. */
  readonly kind: 'folder' | 'device' | 'other';
}

export interface FileEnd {
  /** False of a pipe, a device, a folder: nothing is read of these. */
  readonly isFile: boolean;
  /** So many as were asked for, or as there are; as numbers, to be sent. */
  readonly lastBytes: readonly number[];
  /** On its file system, for root: what is kept back for root counts. */
  readonly freeBytes: number;
}

export interface FileSystemStat {
  readonly type: number;
  readonly totalBytes: number;
  readonly freeBytes: number;
  readonly availableBytes: number;
  readonly inodes: number;
  readonly freeInodes: number;
}

const IDLE_MS = 15_000;
// A hung call takes one thread of the helper; past this many, further calls wait.
const CALLS_PER_PROCESS = 48;
const MAX_PROCESSES = 2;
const MAX_HUNG = 6;

/**
 * Calls that a dead network share or a stuck disk may hold for ever, made in a helper process: when the op's signal fires, the
 * caller goes on at once, the helper takes no further calls and is killed when nobody waits for it any more.
 */
export class HangSafe {
  readonly #pool: PeerPool;

  constructor({ clock }: { readonly clock: Clock }) {
    this.#pool = new PeerPool({
      clock,
      what: 'the helper process for calls that may hang',
      start: processPeer(workerUrl(import.meta.url, './hang-safe-worker'), CALLS_PER_PROCESS),
      idleMs: IDLE_MS,
      maxPeers: MAX_PROCESSES,
      callsPerPeer: CALLS_PER_PROCESS,
      onGivenUp: 'kill',
      maxHung: MAX_HUNG,
      describe: (request: HangSafeRequest) => `${request.call} ${'path' in request ? request.path : request.target}`,
    });
  }

  async umount2(op: Op, target: string, flags: number): Promise<void> {
    await this.#ask(op, { call: 'umount2', target, flags });
  }

  /** stat(2): follows symbolic links. */
  async stat(op: Op, path: string): Promise<PathStat> {
    return (await this.#ask(op, { call: 'stat', path })) as PathStat;
  }

  /** Absolute, without links in it. */
  async realpath(op: Op, path: string): Promise<string> {
    return (await this.#ask(op, { call: 'realpath', path })) as string;
  }

  async statfs(op: Op, path: string): Promise<FileSystemStat> {
    return (await this.#ask(op, { call: 'statfs', path })) as FileSystemStat;
  }

  /** With those above it; there already is a success. */
  async mkdir(op: Op, path: string, mode: number): Promise<void> {
    await this.#ask(op, { call: 'mkdir', path, mode });
  }

  /** Empty; one that is there already is a success and stays as it is. Its folder is not made. */
  async makeFile(op: Op, path: string, mode: number): Promise<void> {
    await this.#ask(op, { call: 'makeFile', path, mode });
  }

  async list(op: Op, path: string): Promise<FolderEntry[]> {
    return (await this.#ask(op, { call: 'list', path })) as FolderEntry[];
  }

  /** The text of a regular file of at most `maxBytes`. */
  async readFile(op: Op, path: string, maxBytes: number): Promise<string> {
    return (await this.#ask(op, { call: 'readFile', path, maxBytes })) as string;
  }

  /** Follows symbolic links. */
  async fileEnd(op: Op, path: string, bytes: number): Promise<FileEnd> {
    return (await this.#ask(op, { call: 'fileEnd', path, bytes })) as FileEnd;
  }

  /** mount(2) with the working directory set, so that relative names in `data` stay short. */
  async mountFrom(op: Op, request: Omit<HangSafeRequest & { call: 'mountFrom' }, 'call'>): Promise<void> {
    await this.#ask(op, { call: 'mountFrom', ...request });
  }

  close(): void {
    this.#pool.close();
  }

  #ask(op: Op, request: HangSafeRequest): Promise<unknown> {
    return this.#pool.call(op, request);
  }
}
