import { isAbsolute, normalize } from 'node:path';
import type { Op } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import { invalidArgument } from '../lib/errors.ts';
import { NO_FAULTS, type FaultPoints } from '../lib/fault-points.ts';
import { workerUrl } from '../lib/worker-url.ts';
import type { Holder } from './mount-holders.ts';
import { isBelow } from './mountinfo.ts';
import { PeerPool, threadPeer } from './peer-pool.ts';
import type { TreeSize } from './tree-walker.ts';

export type { Holder } from './mount-holders.ts';

export interface RemoveRequest {
  /** An existing directory of ours, above `path`. Must not itself be what may have been mounted over. */
  readonly root: string;
  /** What to remove: a directory with all below it, or a single file. Strictly below `root`. */
  readonly path: string;
  /** The inode that the path had when we made it. Anything else there is not ours, and stays. */
  readonly expectedIno?: number;
  /**
   * Mounts of other mount namespaces in the tree: removing their mount point takes them away from the processes there
   * (the data behind them survives). `block` (default) refuses and names the processes, `ignore` does not look.
   */
  readonly foreignNamespaces?: 'block' | 'ignore';
}

export interface Blocker {
  readonly path: string;
  /** `mount`: something is mounted there. `busy`: in use. `foreign-inode`: not what we made. `error`: the message says. */
  readonly reason: 'mount' | 'busy' | 'foreign-inode' | 'error';
  readonly source?: string;
  readonly fsType?: string;
  /** Processes that keep it busy, as far as they can be seen. */
  readonly holders?: readonly Holder[];
  /** One line for people: path, what is there, where it comes from, who holds it. */
  readonly message: string;
}

export type RemoveOutcome =
  | { readonly kind: 'removed'; readonly entries: number }
  | { readonly kind: 'absent' }
  | {
      readonly kind: 'blocked';
      readonly blockers: readonly Blocker[];
      /** Removed before something stood in the way. 0 when mounts were there from the start: then nothing is touched. */
      readonly entries: number;
    };

export interface RemovePlan extends TreeSize {
  /** What a removal would be refused for now. */
  readonly blockers: readonly Blocker[];
  readonly absent: boolean;
}

/** What the thread is asked. */
export interface RemoveThreadRequest {
  readonly call: 'remove' | 'plan';
  readonly request: RemoveRequest;
  /** One Int32: not 0 means that the caller has gone. */
  readonly abort: SharedArrayBuffer;
}

const IDLE_MS = 10_000;
const MAX_THREADS = 3;
const MAX_HUNG = 9;

/**
 * The only recursive delete of the code base (DESIGN.md, idea 6). What is mounted inside a tree can not be reached from
 * it: the walk happens in a private, detached copy of the mount that `root` is on, in which nothing is mounted, on directory
 * descriptors, never across a mount and never through a symbolic link. What it cannot remove it leaves and names.
 */
export class SafeRemove {
  readonly #pool: PeerPool;

  constructor({ clock, faults = NO_FAULTS }: { readonly clock: Clock; readonly faults?: FaultPoints }) {
    this.#pool = new PeerPool({
      clock,
      what: 'the deleting thread',
      start: threadPeer(workerUrl(import.meta.url, './safe-remove-worker'), 'safe-remove', faults),
      idleMs: IDLE_MS,
      maxPeers: MAX_THREADS,
      callsPerPeer: 1,
      onGivenUp: 'leave',
      maxHung: MAX_HUNG,
      describe: ({ call, request: { path } }: RemoveThreadRequest) =>
        call === 'remove' ? `the removal of ${path}` : `a look at what is to be removed of ${path}`,
    });
  }

  /**
   * Removes `path`, or says what stands in the way; calling it again afterwards carries on. Throws InvalidArgument for
   * a path that is not below `root`, and what the kernel says when even looking fails.
   */
  async remove(op: Op, request: RemoveRequest): Promise<RemoveOutcome> {
    return (await this.#ask(op, 'remove', request)) as RemoveOutcome;
  }

  /** What {@link remove} would do, without doing it. */
  async plan(op: Op, request: RemoveRequest): Promise<RemovePlan> {
    return (await this.#ask(op, 'plan', request)) as RemovePlan;
  }

  close(): void {
    this.#pool.close();
  }

  async #ask(op: Op, call: RemoveThreadRequest['call'], request: RemoveRequest): Promise<unknown> {
    checkRequest(request);
    const abort = new SharedArrayBuffer(4);
    const onAbort = (): void => {
      Atomics.store(new Int32Array(abort), 0, 1);
    };
    op.signal.addEventListener('abort', onAbort, { once: true });
    try {
      const message: RemoveThreadRequest = { call, request, abort };
      return await this.#pool.call(op, message);
    } finally {
      op.signal.removeEventListener('abort', onAbort);
    }
  }
}

/** Lexically only: what the names mean is for the kernel to say. */
export function checkRequest({ root, path }: RemoveRequest): void {
  const plain = (name: string): boolean =>
    isAbsolute(name) && normalize(name) === name && !name.endsWith('/') && !name.includes('\0');
  if (root !== '/' && !plain(root)) throw invalidArgument(`${root}: not a plain absolute path`);
  if (!plain(path)) throw invalidArgument(`${path}: not a plain absolute path`);
  if (!isBelow(path, root)) throw invalidArgument(`${path} is not below ${root}`);
}
