import type { Op } from '../../../lib/abort.ts';
import { backoffDelayMs, type BackoffPolicy } from '../../../lib/backoff.ts';
import type { Clock } from '../../../lib/clock.ts';
import { GantryError, messageOf } from '../../../lib/errors.ts';
import { isRetryable } from './transport-errors.ts';

export interface RetryPolicy {
  /** Tries in all, the first one counted. */
  readonly attempts: number;
  readonly backoff: BackoffPolicy;
  /** A server may ask for a longer wait; never longer than this. */
  readonly longestWaitMs: number;
}

/** A registry that stumbles gets a few seconds; kubelet's own image back-off takes over after that. */
export const REGISTRY_RETRY: RetryPolicy = {
  attempts: 5,
  backoff: { initialMs: 500, maxMs: 8_000 },
  longestWaitMs: 30_000,
};

/** Runs `fn` until it works, fails for good, or has been tried often enough. Throws the last failure. */
export async function withRetries<T>(op: Op, clock: Clock, policy: RetryPolicy, fn: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await fn();
    } catch (error) {
      if (op.signal.aborted || !isRetryable(error) || attempt >= policy.attempts) throw error;
      const delayMs = retryDelayMs(policy, attempt, error);
      op.log.info({ attempt, delayMs, error: messageOf(error) }, 'registry request is tried again');
      await clock.sleep(delayMs, op.signal);
    }
  }
}

export function retryDelayMs(policy: RetryPolicy, failures: number, error: unknown): number {
  const asked = error instanceof GantryError ? error.details['retryAfterMs'] : undefined;
  const ours = backoffDelayMs(policy.backoff, failures);
  return typeof asked === 'number' ? Math.min(Math.max(asked, ours), policy.longestWaitMs) : ours;
}

/** The Retry-After header: seconds, or a date. */
export function parseRetryAfterMs(value: string | undefined, wallMs: number): number | undefined {
  if (value === undefined) return undefined;
  if (/^[0-9]+$/.test(value)) return Number(value) * 1000;
  const at = Date.parse(value);
  return Number.isNaN(at) ? undefined : Math.max(0, at - wallMs);
}
