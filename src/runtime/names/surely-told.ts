import type { Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';

/** An answer takes far less on its way over a unix socket, unless the machine stalls. */
const ON_THE_WAY_MS = 1_000;

/**
 * Whether an answer that is given now reaches its caller. One that comes when the caller's deadline is about to pass may not: it gives
 * up, the answer is lost, and nobody here is told. Such a caller asks again and must get the same answer.
 */
export function surelyTold(op: Op, clock: Pick<Clock, 'wallMs'>): boolean {
  const { signal, callerLeavesWallMs } = op;
  if (signal.aborted) return false;
  return callerLeavesWallMs === undefined || clock.wallMs() < callerLeavesWallMs - ON_THE_WAY_MS;
}
