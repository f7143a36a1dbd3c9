import { Worker } from 'node:worker_threads';
import type { Op } from '../../../lib/abort.ts';
import type { Clock, Timer } from '../../../lib/clock.ts';
import { canceled, GantryError } from '../../../lib/errors.ts';
import { faultGate } from '../../../lib/fault-gate.ts';
import { NO_FAULTS, type FaultPoints } from '../../../lib/fault-points.ts';
import { workerUrl } from '../../../lib/worker-url.ts';
import type { FromWorker, JobKind, Jobs, ToWorker } from './protocol.ts';

interface Waiter {
  readonly promise: PromiseWithResolvers<never>;
  readonly onProgress: ((bytes: number) => void) | undefined;
}

/** A thread costs some ten MB: one that has had nothing to do for this long ends, and starts again when needed. */
const IDLE_MS = 30_000;

/** The one thread of this room that touches the disk for long. It starts with the first job. */
export class SnapshotThread {
  readonly #clock: Clock;
  readonly #faults: FaultPoints;
  readonly #waiting = new Map<number, Waiter>();
  #worker: Worker | undefined;
  #idle: Timer | undefined;
  #seq = 0;
  #closed = false;

  constructor({ clock, faults = NO_FAULTS }: { readonly clock: Clock; readonly faults?: FaultPoints }) {
    this.#clock = clock;
    this.#faults = faults;
  }

  /**
   * Runs a job to its end. When the op's signal fires the job is told to stop, and the promise rejects when it has:
   * nothing of the job goes on behind the caller's back.
   */
  async run<Kind extends JobKind>(
    op: Op,
    jobKind: Kind,
    job: Jobs[Kind]['job'],
    onProgress?: (bytes: number) => void,
  ): Promise<Jobs[Kind]['result']> {
    if (this.#closed) throw new GantryError('Unavailable', 'the snapshot thread is closed');
    op.signal.throwIfAborted();
    const seq = ++this.#seq;
    const promise = Promise.withResolvers<never>();
    this.#waiting.set(seq, { promise, onProgress });
    const worker = this.#started();
    const send = (message: ToWorker): void => {
      worker.postMessage(message);
    };
    const onAbort = (): void => {
      send({ kind: 'cancel', seq });
    };
    op.signal.addEventListener('abort', onAbort, { once: true });
    send({ kind: 'run', seq, jobKind, job });
    try {
      return await promise.promise;
    } catch (error) {
      const reason: unknown = op.signal.reason;
      if (op.signal.aborted) throw reason instanceof Error ? reason : canceled('canceled');
      throw error;
    } finally {
      op.signal.removeEventListener('abort', onAbort);
    }
  }

  /** Starts the thread, which takes as long as unpacking a small layer: it goes again if nothing comes. */
  warmUp(): void {
    if (this.#closed || this.#waiting.size > 0) return;
    this.#started();
    this.#rest();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#idle?.cancel();
    const worker = this.#worker;
    this.#died(new GantryError('Unavailable', 'the snapshot thread is closed'));
    await worker?.terminate();
  }

  #started(): Worker {
    this.#idle?.cancel();
    this.#idle = undefined;
    if (this.#worker !== undefined) {
      this.#worker.ref();
      return this.#worker;
    }
    const worker = new Worker(workerUrl(import.meta.url, './snapshot-worker'), {
      name: 'snapshot',
      ...faultGate(this.#faults),
    });
    worker.on('message', (message: FromWorker) => {
      this.#settle(message);
    });
    const died = (error: Error): void => {
      if (this.#worker === worker) this.#died(error);
    };
    worker.on('error', died);
    worker.on('exit', () => {
      died(new GantryError('Unavailable', 'the snapshot thread has ended'));
    });
    this.#worker = worker;
    return worker;
  }

  #settle(message: FromWorker): void {
    const waiter = this.#waiting.get(message.seq);
    if (message.kind === 'progress') {
      waiter?.onProgress?.(message.bytes);
      return;
    }
    this.#waiting.delete(message.seq);
    if (this.#waiting.size === 0) this.#rest();
    if (message.kind === 'done') {
      // The sequence number ties the answer to the kind of job that was asked.
      waiter?.promise.resolve(message.result as never);
      return;
    }
    const { errorKind, message: text, details } = message.error;
    waiter?.promise.reject(new GantryError(errorKind, text, { details }));
  }

  #rest(): void {
    const worker = this.#worker;
    worker?.unref();
    this.#idle?.cancel();
    this.#idle = this.#clock.after(IDLE_MS, () => {
      if (this.#waiting.size > 0 || worker === undefined || this.#worker !== worker) return;
      this.#worker = undefined;
      void worker.terminate();
    });
  }

  #died(error: Error): void {
    this.#worker = undefined;
    for (const waiter of this.#waiting.values()) waiter.promise.reject(error);
    this.#waiting.clear();
  }
}
