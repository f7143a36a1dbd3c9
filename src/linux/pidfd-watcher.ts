import { Worker } from 'node:worker_threads';
import { workerUrl } from '../lib/worker-url.ts';
import { errnoError } from './errno.ts';
import { libc } from './libc.ts';
import { openPidfd, type Pidfd, type WaitStatus } from './pidfd.ts';
import type { ProcessKey } from './procfs.ts';

/** What the watching thread is given at its start. */
export interface WatcherThreadData {
  readonly epoll: number;
  /** One Int32: not 0 means that the thread is to end. */
  readonly stop: SharedArrayBuffer;
}

const EPOLL_CLOEXEC = 0o2000000;
const EFD_CLOEXEC_NONBLOCK = 0o2004000;
const EPOLL_CTL_ADD = 1;
const EPOLL_CTL_DEL = 2;
const EPOLLIN = 1;
const EPOLLONESHOT = 1 << 30;
// epoll_event is packed on x86-64 only.
const DATA_OFFSET = process.arch === 'x64' ? 4 : 8;

interface Watched {
  readonly pidfd: Pidfd;
  readonly onExit: (status: WaitStatus | undefined) => void;
}

/** Says when processes end that are no children of ours: one thread waits for all of them. */
export class PidfdWatcher implements Disposable {
  readonly #epoll: number;
  readonly #wake: number;
  readonly #stop = new SharedArrayBuffer(4);
  readonly #watched = new Map<number, Watched>();
  readonly #worker: Worker;
  readonly #onProcessExit = (): void => {
    this.#wakeThread();
  };
  #token = 0;
  #closed = false;

  constructor() {
    this.#epoll = checked(libc.epollCreate1(EPOLL_CLOEXEC), 'epoll_create1');
    this.#wake = checked(libc.eventfd(0, EFD_CLOEXEC_NONBLOCK), 'eventfd');
    this.#control(EPOLL_CTL_ADD, this.#wake, EPOLLIN, 0);
    const workerData: WatcherThreadData = { epoll: this.#epoll, stop: this.#stop };
    this.#worker = new Worker(workerUrl(import.meta.url, './pidfd-watcher-worker'), {
      name: 'pidfd-watcher',
      workerData,
      resourceLimits: { maxYoungGenerationSizeMb: 2 },
    });
    this.#worker.unref();
    this.#worker.on('message', (tokens: readonly number[]) => {
      for (const token of tokens) this.#ended(token);
    });
    // The thread sits in the kernel: without a nudge the end of the process would wait for it.
    process.once('exit', this.#onProcessExit);
  }

  /**
   * Calls `onExit` once, always asynchronously, when the process has ended; at once when it is already gone. The
   * status is undefined when nobody can tell it. Disposing the returned object ends the watch.
   */
  watch(key: ProcessKey, onExit: (status?: WaitStatus) => void): Disposable {
    const pidfd = this.#closed ? undefined : openPidfd(key);
    const token = ++this.#token;
    if (pidfd === undefined) {
      let wanted = !this.#closed;
      queueMicrotask(() => {
        if (wanted) onExit(undefined);
      });
      return { [Symbol.dispose]: () => (wanted = false) };
    }
    this.#watched.set(token, { pidfd, onExit });
    this.#control(EPOLL_CTL_ADD, pidfd.fd, EPOLLIN | EPOLLONESHOT, token);
    return {
      [Symbol.dispose]: () => {
        this.#forget(token);
      },
    };
  }

  get size(): number {
    return this.#watched.size;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    process.off('exit', this.#onProcessExit);
    for (const token of [...this.#watched.keys()]) this.#forget(token);
    this.#worker.once('exit', () => {
      libc.close(this.#epoll);
      libc.close(this.#wake);
    });
    this.#wakeThread();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #ended(token: number): void {
    const watched = this.#watched.get(token);
    if (watched === undefined) return;
    const status = watched.pidfd.exitStatus();
    this.#forget(token);
    watched.onExit(status);
  }

  #forget(token: number): void {
    const watched = this.#watched.get(token);
    if (watched === undefined) return;
    this.#watched.delete(token);
    libc.epollCtl(this.#epoll, EPOLL_CTL_DEL, watched.pidfd.fd, null);
    watched.pidfd.close();
  }

  #control(operation: number, fd: number, events: number, token: number): void {
    const event = Buffer.alloc(16);
    event.writeUInt32LE(events >>> 0, 0);
    event.writeBigUInt64LE(BigInt(token), DATA_OFFSET);
    checked(libc.epollCtl(this.#epoll, operation, fd, event), 'epoll_ctl');
  }

  #wakeThread(): void {
    Atomics.store(new Int32Array(this.#stop), 0, 1);
    const one = Buffer.alloc(8);
    one.writeBigUInt64LE(1n);
    libc.write(this.#wake, one, one.length);
  }
}

function checked(result: number | bigint, what: string): number {
  if (result < 0) throw errnoError(libc.errno(), what);
  return Number(result);
}
