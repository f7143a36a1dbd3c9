import { backoffDelayMs, type BackoffPolicy } from '../../lib/backoff.ts';
import type { Clock } from '../../lib/clock.ts';

/** As a pass that fails. */
const SANDBOX_RETRY: BackoffPolicy = { initialMs: 500, maxMs: 15_000 };

/**
 * That a pod's sandbox could not be made, and when the next try is due. What is left of the failed one tells of itself and wakes
 * the worker: without a time of its own each try would be followed by the next at once.
 */
export class FailedSandbox {
  readonly #clock: Clock;
  #last: { readonly message: string; readonly failures: number; readonly retryAtMs: number } | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  note(message: string): void {
    const failures = (this.#last?.failures ?? 0) + 1;
    const retryAtMs = this.#clock.monotonicMs() + backoffDelayMs(SANDBOX_RETRY, failures);
    this.#last = { message, failures, retryAtMs };
  }

  clear(): void {
    this.#last = undefined;
  }

  /** 0: a sandbox may be made now. */
  retryInMs(): number {
    return this.#last === undefined ? 0 : Math.max(0, this.#last.retryAtMs - this.#clock.monotonicMs());
  }

  /** Of the last try, until one succeeds. */
  get last(): { readonly message: string; readonly failures: number } | undefined {
    return this.#last;
  }
}
