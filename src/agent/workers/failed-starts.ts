import { backoffDelayMs, type BackoffPolicy } from '../../lib/backoff.ts';
import type { Clock } from '../../lib/clock.ts';
import type { FailedStart } from '../sync/compute-pod-actions.ts';

interface Failure {
  readonly reason: string;
  readonly message: string;
  readonly failures: number;
  readonly retryAtMs: number;
}

/** A missing ConfigMap or Secret is soon there: it is looked for often. */
export const CONFIG_RETRY: BackoffPolicy = { initialMs: 1_000, maxMs: 10_000 };
export const CREATE_RETRY: BackoffPolicy = { initialMs: 2_000, maxMs: 60_000 };

/** Starts that failed before there was a container to show for it, and when they are tried again. */
export class FailedStarts {
  readonly #clock: Clock;
  readonly #failures = new Map<string, Failure>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Answers whether this is news: the first of its kind in a row. */
  note(name: string, reason: string, message: string, policy: BackoffPolicy): boolean {
    const before = this.#failures.get(name);
    const failures = (before?.failures ?? 0) + 1;
    const retryAtMs = this.#clock.monotonicMs() + backoffDelayMs(policy, failures);
    this.#failures.set(name, { reason, message, failures, retryAtMs });
    return before?.message !== message || before.reason !== reason;
  }

  clear(name: string): void {
    this.#failures.delete(name);
  }

  view(): ReadonlyMap<string, FailedStart> {
    const nowMs = this.#clock.monotonicMs();
    return new Map(
      [...this.#failures].map(([name, { reason, message, retryAtMs }]) => [
        name,
        { reason, message, retryInMs: Math.max(0, retryAtMs - nowMs) },
      ]),
    );
  }
}
