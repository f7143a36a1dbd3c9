import type { ContainerStatus, ExitedState } from './state.ts';

/** What CRI shows of an ended container: `exit_code`, `reason`, `message`. */
export interface ShownExit {
  readonly exitCode: number;
  readonly reason: string;
  readonly message: string;
}

/** On the CRI wire an unknown exit is 255 with this reason (BEHAVIOUR.md C8); inside it is a value of its own. */
const UNKNOWN_EXIT_CODE = 255;
const UNKNOWN_REASON = 'Unknown';
/** As shells say "found but not started"; kubelet's users know it with this reason. */
const START_ERROR_CODE = 128;
const START_ERROR_REASON = 'StartError';
const OOM_REASON = 'OOMKilled';

const LOG_INCOMPLETE = 'the end of the log may be missing';

export function shownExit(state: ExitedState): ShownExit {
  const { cause } = state;
  if (cause.kind === 'start-failed') {
    return { exitCode: START_ERROR_CODE, reason: START_ERROR_REASON, message: cause.message };
  }
  const { exit } = cause;
  const notes: string[] = [];
  if (exit.kind === 'unknown') notes.push(exit.reason);
  if (exit.kind === 'exited' && exit.oom === 'child') notes.push('a child process was OOM-killed');
  if (exit.logMayBeIncomplete === true) notes.push(LOG_INCOMPLETE);
  if (exit.logLoss !== undefined) notes.push(`output may be missing from the log: ${exit.logLoss}`);
  const message = notes.join('; ');
  if (exit.kind === 'unknown') return { exitCode: UNKNOWN_EXIT_CODE, reason: UNKNOWN_REASON, message };
  if (exit.oom === 'init') return { exitCode: exit.code, reason: OOM_REASON, message };
  return { exitCode: exit.code, reason: exit.code === 0 ? 'Completed' : 'Error', message };
}

/** The `reason` and `message` of a container that has not ended. */
export function shownReason(status: ContainerStatus): Pick<ShownExit, 'reason' | 'message'> {
  if (status.state.kind === 'unknown') return { reason: UNKNOWN_REASON, message: status.state.why };
  if (status.stop?.blocked !== undefined) return { reason: 'StopBlocked', message: status.stop.blocked };
  return { reason: '', message: '' };
}
