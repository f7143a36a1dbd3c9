import type { Clock } from './clock.ts';
import { canceled, deadlineExceeded } from './errors.ts';
import type { Log } from './log.ts';
import type { Waits } from './waits.ts';

/** The first parameter of everything that takes time: when to give up, and where to say what happens. */
export interface Op {
  readonly signal: AbortSignal;
  readonly log: Log;
  /** When a caller from outside stops listening, in wall time as it came over the wire; absent where it set no deadline. */
  readonly callerLeavesWallMs?: number;
  /** Where to note what is being waited for; see `waitingFor`. */
  readonly waits?: Waits;
}

/** A signal of its own below a parent. `close` unsubscribes it, so that a long-lived parent keeps nothing of it. */
export interface ChildSignal extends Disposable {
  readonly signal: AbortSignal;
  abort(reason: Error): void;
  close(): void;
}

/** A signal that fires with its parent, by hand, or (if given) when `timeoutMs` has passed. */
export function childSignal(
  parent: AbortSignal | undefined,
  deadline?: { readonly clock: Clock; readonly timeoutMs: number; readonly what: string; readonly waits?: Waits },
): ChildSignal {
  const controller = new AbortController();
  const onParent = (): void => {
    const reason: unknown = parent?.reason;
    controller.abort(reason instanceof Error ? reason : canceled('canceled'));
  };
  if (parent?.aborted) onParent();
  else parent?.addEventListener('abort', onParent, { once: true });
  const timer = deadline?.clock.after(deadline.timeoutMs, () => {
    const waiting = deadline.waits?.words() ?? '';
    controller.abort(deadlineExceeded(`${deadline.what}: not done within ${String(deadline.timeoutMs)} ms${waiting}`));
  });
  const close = (): void => {
    timer?.cancel();
    parent?.removeEventListener('abort', onParent);
  };
  return {
    signal: controller.signal,
    abort: (reason) => {
      controller.abort(reason);
    },
    close,
    [Symbol.dispose]: close,
  };
}

/**
 * Runs `fn` with a deadline. When it passes, the returned promise rejects with DeadlineExceeded at once, even if `fn`
 * does not listen to its signal: what it does afterwards is its own affair, so only give it work that may finish late.
 */
export async function withDeadline<T>(
  op: Op,
  clock: Clock,
  timeoutMs: number,
  what: string,
  fn: (op: Op) => Promise<T>,
): Promise<T> {
  return await withLimit(op, clock, timeoutMs, what, (limited) => raceSignal(fn(limited), limited.signal));
}

/**
 * Runs `fn` with a deadline, as {@link withDeadline}, but settles when `fn` has really ended: for what must not go on beside its own
 * undoing. `fn` has to listen to its signal.
 */
export async function withLimit<T>(
  op: Op,
  clock: Clock,
  timeoutMs: number,
  what: string,
  fn: (op: Op) => Promise<T>,
): Promise<T> {
  using child = childSignal(op.signal, {
    clock,
    timeoutMs,
    what,
    ...(op.waits === undefined ? {} : { waits: op.waits }),
  });
  return await fn({ ...op, signal: child.signal });
}

/** The promise's outcome, or the signal's reason if that comes first. */
export function raceSignal<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      const reason: unknown = signal.reason;
      reject(reason instanceof Error ? reason : canceled('canceled'));
    };
    if (signal.aborted) {
      promise.catch(() => undefined);
      onAbort();
      return;
    }
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => {
      signal.removeEventListener('abort', onAbort);
    });
  });
}

/**
 * A fresh context for undo and background work: its deadline is its own, never the caller's, so that a client that
 * went away cannot stop a roll-back half-way (containerd #5438 leaked addresses that way).
 */
export async function detached<T>(
  log: Log,
  clock: Clock,
  timeoutMs: number,
  what: string,
  fn: (op: Op) => Promise<T>,
): Promise<T> {
  return await withDeadline({ signal: new AbortController().signal, log }, clock, timeoutMs, what, fn);
}
