import type { Op } from '../../lib/abort.ts';
import { messageOf } from '../../lib/errors.ts';
import type { ExitStatus } from './exit-status.ts';
import type { ExitWatcherDeps, WatchedTask } from './watched-task.ts';

/** So long an exit waits for the look at its log. A disk takes a millisecond; on one that hangs the answer is a correction, if it comes. */
const LOG_LOOK_MS = 500;

/** Neither rejects. */
export interface LogAnswer {
  /** The exit, with what the log says by the time at which it is to be told. */
  readonly inTime: Promise<ExitStatus>;
  /** The exit as it has to be told then. Undefined: it was told so, or there is nothing to add. */
  readonly late: Promise<ExitStatus | undefined>;
}

/** Asks whether output is missing from the log of a task that has ended. Of one that was told without its file that is said anyway. */
export function askLog(
  op: Op,
  deps: Pick<ExitWatcherDeps, 'clock' | 'logLoss'>,
  task: Pick<WatchedTask, 'id' | 'logPath'>,
  exit: ExitStatus,
): LogAnswer {
  const { logPath } = task;
  if (logPath === undefined || deps.logLoss === undefined || exit.logMayBeIncomplete === true) {
    return { inTime: Promise.resolve(exit), late: Promise.resolve(undefined) };
  }
  const told = Promise.withResolvers<ExitStatus>();
  const timer = deps.clock.after(LOG_LOOK_MS, () => told.resolve(exit));
  const late = lossIn(op, deps.logLoss, task.id, logPath).then(async (logLoss) => {
    timer.cancel();
    const whole = logLoss === undefined ? exit : { ...exit, logLoss };
    told.resolve(whole);
    return (await told.promise) === whole ? undefined : whole;
  });
  return { inTime: told.promise, late };
}

async function lossIn(
  op: Op,
  ask: NonNullable<ExitWatcherDeps['logLoss']>,
  containerId: string,
  logPath: string,
): Promise<string | undefined> {
  try {
    return await ask(op, logPath);
  } catch (error) {
    if (!op.signal.aborted) op.log.warn({ containerId, error: messageOf(error) }, 'a log cannot be looked at');
    return undefined;
  }
}
