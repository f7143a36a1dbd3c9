/** How long to wait before the next try: `initialMs`, doubled after each failure, never more than `maxMs`. */
export interface BackoffPolicy {
  readonly initialMs: number;
  readonly maxMs: number;
}

/** Event and cleanup retries (BEHAVIOUR.md C10). */
export const CLEANUP_BACKOFF: BackoffPolicy = { initialMs: 1_000, maxMs: 300_000 };

/** Crash back-off of a pod's containers, as kubelet's. */
export const CRASH_BACKOFF: BackoffPolicy = { initialMs: 10_000, maxMs: 300_000 };

/** The delay after the `failures`-th failure in a row (1 for the first). */
export function backoffDelayMs(policy: BackoffPolicy, failures: number): number {
  if (failures <= 0) return 0;
  // 2 ** 1024 is Infinity, which min() still bounds.
  return Math.min(policy.initialMs * 2 ** (failures - 1), policy.maxMs);
}
