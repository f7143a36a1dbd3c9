import { backoffDelayMs, type BackoffPolicy } from '../../lib/backoff.ts';
import { withDeadline, type Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { messageOf } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import type { VolumeKey } from './desired-state.ts';

/** `running` and `in-backoff` are what happens every day, and no errors. */
export type StartOutcome = 'started' | 'running' | 'in-backoff';

export interface VolumeOperation {
  readonly key: VolumeKey;
  /** `volume_mount`, `volume_unmount`. */
  readonly name: string;
  readonly timeoutMs: number;
  /** Resolves to false when it has to be tried again (something is in the way). */
  run(op: Op): Promise<boolean>;
}

interface Pending {
  running: boolean;
  name: string;
  failures: number;
  notBeforeMs: number;
}

/** Short, so that a blocked teardown ends within seconds of the mount's going away. */
export const VOLUME_BACKOFF: BackoffPolicy = { initialMs: 500, maxMs: 4_000 };

/**
 * Runs operations on volumes side by side, never two at once on the same volume of the same pod, and a failed one not
 * again before its back-off is over (BEHAVIOUR.md 9).
 */
export class OperationExecutor {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #onDone: () => void;
  readonly #pending = new Map<VolumeKey, Pending>();
  readonly #stop = new AbortController();

  constructor(deps: { readonly clock: Clock; readonly log: Log; readonly onDone: () => void }) {
    this.#clock = deps.clock;
    this.#log = deps.log;
    this.#onDone = deps.onDone;
  }

  start(operation: VolumeOperation): StartOutcome {
    const { key, name } = operation;
    const pending = this.#pending.get(key) ?? { running: false, name, failures: 0, notBeforeMs: 0 };
    // Another kind of operation than the one that failed need not wait for that one's back-off.
    if (pending.running) return 'running';
    if (pending.name === name && this.#clock.monotonicMs() < pending.notBeforeMs) return 'in-backoff';
    if (pending.name !== name) Object.assign(pending, { name, failures: 0 });
    pending.running = true;
    this.#pending.set(key, pending);
    void this.#run(operation, pending);
    return 'started';
  }

  async #run(operation: VolumeOperation, pending: Pending): Promise<void> {
    let done = false;
    try {
      const op: Op = { signal: this.#stop.signal, log: this.#log };
      done = await withDeadline(op, this.#clock, operation.timeoutMs, operation.name, (bounded) =>
        operation.run(bounded),
      );
    } catch (error) {
      // The operation itself has told whom it concerns; here it only counts.
      this.#log.debug(
        { volume: operation.key, operation: operation.name, error: messageOf(error) },
        'volume operation failed',
      );
    }
    pending.running = false;
    if (done) this.#pending.delete(operation.key);
    else {
      pending.failures += 1;
      pending.notBeforeMs = this.#clock.monotonicMs() + backoffDelayMs(VOLUME_BACKOFF, pending.failures);
    }
    this.#onDone();
  }

  /** When the first back-off ends, in milliseconds from now; undefined when none runs. */
  nextRetryMs(): number | undefined {
    const waits = [...this.#pending.values()].filter(({ running }) => !running).map(({ notBeforeMs }) => notBeforeMs);
    return waits.length === 0 ? undefined : Math.max(0, Math.min(...waits) - this.#clock.monotonicMs());
  }

  isRunning(key: VolumeKey): boolean {
    return this.#pending.get(key)?.running === true;
  }

  /** Fires the signals of what runs. It may end later than this returns. */
  stop(reason: Error): void {
    this.#stop.abort(reason);
  }
}
