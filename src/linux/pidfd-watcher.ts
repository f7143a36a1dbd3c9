import { Worker } from 'node:worker_threads';
import { systemClock, type Clock, type Timer } from '../lib/clock.ts';
import { messageOf } from '../lib/errors.ts';
import { silentLog, type Log } from '../lib/log.ts';
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

/** What is used of a `Worker`. */
export interface WatcherThread {
  on(event: 'message', listener: (tokens: readonly number[]) => void): unknown;
  on(event: 'error', listener: (error: unknown) => void): unknown;
  once(event: 'exit', listener: () => void): unknown;
}

export type StartWatcherThread = (data: WatcherThreadData) => WatcherThread;

export interface PidfdWatcherDeps {
  readonly clock?: Clock;
  readonly log?: Log;
  readonly startThread?: StartWatcherThread;
}

const RESTART_MS = 1_000;

function workerThread(workerData: WatcherThreadData): WatcherThread {
  const worker = new Worker(workerUrl(import.meta.url, './pidfd-watcher-worker'), {
    name: 'pidfd-watcher',
    workerData,
    resourceLimits: { maxYoungGenerationSizeMb: 2 },
  });
  worker.unref();
  return worker;
}

/** Says when processes end that are no children of ours: one thread waits for all of them, from the first on. */
export class PidfdWatcher implements Disposable {
  readonly #epoll: number;
  readonly #wake: number;
  readonly #stop = new SharedArrayBuffer(4);
  readonly #watched = new Map<number, Watched>();
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #startThread: StartWatcherThread;
  #thread: WatcherThread | undefined;
  #restart: Timer | undefined;
  readonly #onProcessExit = (): void => {
    this.#wakeThread();
  };
  #token = 0;
  #begun = false;
  #closed = false;

  constructor({ clock = systemClock, log = silentLog, startThread = workerThread }: PidfdWatcherDeps = {}) {
    this.#clock = clock;
    this.#log = log;
    this.#startThread = startThread;
    this.#epoll = checked(libc.epollCreate1(EPOLL_CLOEXEC), 'epoll_create1');
    this.#wake = checked(libc.eventfd(0, EFD_CLOEXEC_NONBLOCK), 'eventfd');
    this.#control(EPOLL_CTL_ADD, this.#wake, EPOLLIN, 0);
    // The thread sits in the kernel: without a nudge the end of the process would wait for it.
    process.once('exit', this.#onProcessExit);
  }

  /**
   * Calls `onExit` once, always asynchronously, when the process has ended; at once when it is already gone. The
   * status is undefined when nobody can tell it. Disposing the returned object ends the watch. Throws ResourceExhausted when out of
   * descriptors or of what the kernel allows to be watched.
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
    try {
      this.#control(EPOLL_CTL_ADD, pidfd.fd, EPOLLIN | EPOLLONESHOT, token);
    } catch (error) {
      pidfd.close();
      throw error;
    }
    // What the thread says of it comes by an event of ours, after this.
    this.#watched.set(token, { pidfd, onExit });
    if (!this.#begun) this.#start();
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
    this.#restart?.cancel();
    const letGo = (): void => {
      libc.close(this.#epoll);
      libc.close(this.#wake);
    };
    if (this.#thread === undefined) {
      letGo();
      return;
    }
    this.#thread.once('exit', letGo);
    this.#wakeThread();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** What has ended while there is no thread is still to be heard of by the next one. */
  #start(): void {
    this.#begun = true;
    const thread = this.#startThread({ epoll: this.#epoll, stop: this.#stop });
    this.#thread = thread;
    thread.on('message', (tokens) => {
      for (const token of tokens) this.#ended(token);
    });
    // Without a listener it would be the end of the whole process.
    thread.on('error', (error) => {
      this.#log.error(
        { error: messageOf(error) },
        'the thread that waits for processes has failed and is started anew',
      );
    });
    thread.once('exit', () => {
      this.#thread = undefined;
      if (this.#closed) return;
      this.#restart = this.#clock.after(RESTART_MS, () => {
        this.#start();
      });
    });
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
