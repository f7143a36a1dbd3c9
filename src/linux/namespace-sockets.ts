import { Socket } from 'node:net';
import type { Op } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import { workerUrl } from '../lib/worker-url.ts';
import { PeerPool, threadPeer } from './peer-pool.ts';

export type AddressFamily = 4 | 6;

/** What the thread is asked. */
export interface NamespaceSocketRequest {
  readonly netnsPath: string;
  readonly family: AddressFamily;
}

const IDLE_MS = 30_000;
const MAX_HUNG = 2;

/**
 * TCP sockets that belong to another network namespace. A socket stays in the one in which it was made, whichever thread uses it: so a
 * thread of its own enters the namespace, makes it, and comes back, and all that takes time is done by the event loop as with any other.
 */
export class NamespaceSockets {
  readonly #pool: PeerPool;

  constructor({ clock }: { readonly clock: Clock }) {
    this.#pool = new PeerPool({
      clock,
      what: 'the thread that makes sockets in network namespaces',
      start: threadPeer(workerUrl(import.meta.url, './namespace-sockets-worker'), 'namespace-sockets'),
      idleMs: IDLE_MS,
      maxPeers: 1,
      callsPerPeer: Number.MAX_SAFE_INTEGER,
      onGivenUp: 'leave',
      maxHung: MAX_HUNG,
      describe: ({ netnsPath }: NamespaceSocketRequest) => `a socket in ${netnsPath}`,
    });
  }

  /** Not connected yet. It keeps the namespace until it is closed. NotFound when there is no such namespace. */
  async open(op: Op, netnsPath: string, family: AddressFamily): Promise<Socket> {
    op.signal.throwIfAborted();
    const request: NamespaceSocketRequest = { netnsPath, family };
    // Not given up when the caller leaves: the descriptor would be lost. It takes microseconds.
    const fd = (await this.#pool.call({ ...op, signal: new AbortController().signal }, request)) as number;
    return new Socket({ fd, allowHalfOpen: true, readable: true, writable: true });
  }

  close(): void {
    this.#pool.close();
  }
}
