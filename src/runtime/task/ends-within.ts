import { childSignal, raceSignal } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';

/** Waits for a promise, but not longer than that. Whether it was fulfilled. */
export async function endsWithin(clock: Clock, promise: Promise<unknown>, longestMs: number): Promise<boolean> {
  using limit = childSignal(undefined, { clock, timeoutMs: longestMs, what: 'wait' });
  return await raceSignal(promise, limit.signal).then(
    () => true,
    () => false,
  );
}
