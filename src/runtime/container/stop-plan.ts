import type { StopIntent } from './state.ts';

/** How long a stop signal that could not be sent is given before SIGKILL (BEHAVIOUR.md C6). */
export const SIGNAL_FAILED_WAIT_MS = 2_000;
/** A SIGKILL that has not ended everything by then is looked into, and said to be blocked. */
export const KILL_LOOK_MS = 2_000;
const KILL_AGAIN_MAX_MS = 60_000;

export interface StopRequest {
  readonly graceMs: number;
  readonly signal: number;
  readonly reason: string;
}

export interface StopNow {
  readonly boottimeMs: number;
  readonly wallMs: number;
  readonly bootId: string;
}

/**
 * Joins a request with the stop that is on its way: the earlier deadline wins at once, a later one never (FAILURES.md row 24).
 * The same object when nothing changes.
 */
export function mergeStop(present: StopIntent | undefined, request: StopRequest, now: StopNow): StopIntent {
  const deadlineBoottimeMs = now.boottimeMs + Math.max(request.graceMs, 0);
  if (present === undefined || present.bootId !== now.bootId) {
    return {
      deadlineBoottimeMs,
      bootId: now.bootId,
      signal: request.signal,
      reason: request.reason,
      requestedAtWallMs: now.wallMs,
      kills: 0,
    };
  }
  return deadlineBoottimeMs < present.deadlineBoottimeMs ? { ...present, deadlineBoottimeMs } : present;
}

export type StopStep =
  | { readonly kind: 'signal' }
  | { readonly kind: 'kill' }
  /** Nothing to do before then. */
  | { readonly kind: 'wait'; readonly untilBoottimeMs: number };

/** What a stop has to do next. Pure: the timer, the exit and a shorter request all come back here. */
export function planStop(stop: StopIntent, boottimeMs: number): StopStep {
  if (stop.lastKillBoottimeMs !== undefined) {
    const pauseMs = Math.min(KILL_LOOK_MS * 2 ** Math.max(stop.kills - 1, 0), KILL_AGAIN_MAX_MS);
    const untilBoottimeMs = stop.lastKillBoottimeMs + pauseMs;
    return boottimeMs >= untilBoottimeMs ? { kind: 'kill' } : { kind: 'wait', untilBoottimeMs };
  }
  // No grace at all: the stop signal is not sent first, its handler could not run anyway.
  if (boottimeMs >= stop.deadlineBoottimeMs) return { kind: 'kill' };
  if (stop.signalFailedBoottimeMs !== undefined) {
    const untilBoottimeMs = Math.min(stop.signalFailedBoottimeMs + SIGNAL_FAILED_WAIT_MS, stop.deadlineBoottimeMs);
    return boottimeMs >= untilBoottimeMs ? { kind: 'kill' } : { kind: 'wait', untilBoottimeMs };
  }
  if (stop.signalSentBoottimeMs === undefined) return { kind: 'signal' };
  return { kind: 'wait', untilBoottimeMs: stop.deadlineBoottimeMs };
}
