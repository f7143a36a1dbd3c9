import type { WaitStatus } from '../../linux/pidfd.ts';

/**
 * How a process ended, as far as it can be known. Unknown is a value of its own: 0, 137 or 255 is never made up.
 */
export type ExitStatus = ExitedStatus | UnknownExit;

export interface ExitedStatus {
  readonly kind: 'exited';
  /** 0-255; a process that a signal ended has 128 + signal, as every container runtime says it. */
  readonly code: number;
  /** The signal that ended it, where one did. */
  readonly signal?: number;
  /** `signal` follows from `code` alone: `exit 137` and a SIGKILL look alike in conmon's exit file. */
  readonly signalGuessed?: boolean;
  /** `init`: the kernel's OOM killer ended the container's first process. `child`: another one of it. */
  readonly oom?: 'init' | 'child';
  /** Told without an exit file. The monitor could not finish the log: its end may be missing. */
  readonly logMayBeIncomplete?: boolean;
  /** Why output that the monitor had read may not be in the log: for `explain` and the container's message. */
  readonly logLoss?: string;
  readonly finishedAtWallMs: number;
}

export interface UnknownExit {
  readonly kind: 'unknown';
  /** Why nobody can tell: for `explain` and the container's message. */
  readonly reason: string;
  readonly logMayBeIncomplete?: boolean;
  readonly logLoss?: string;
  readonly finishedAtWallMs: number;
}

/**
 * Whether it holds what no exit file says: the kernel's word, from the process table or the cgroup. Both go with the task, so that nobody
 * can ask for it again.
 */
export function isKernelsWord(exit: ExitStatus): boolean {
  return exit.kind === 'exited' && (exit.oom !== undefined || exit.logMayBeIncomplete === true);
}

/** What conmon left in its exit file: only a number, and the file's own time. */
export interface ExitRecord {
  readonly code: number;
  readonly writtenAtWallMs: number;
}

const LAST_SIGNAL = 64;

/**
 * Joins what conmon's exit file says with the process table's own word, where there is one. The file is right about the
 * number; only the wait status tells a signal from an exit code above 128.
 */
export function combineExit(record: ExitRecord, wait: WaitStatus | undefined): ExitedStatus {
  const base = { kind: 'exited', code: record.code, finishedAtWallMs: record.writtenAtWallMs } as const;
  if (wait?.kind === 'signaled' && record.code === 128 + wait.signal) return { ...base, signal: wait.signal };
  if (wait?.kind === 'exited' && record.code === wait.code) return base;
  if (record.code > 128 && record.code <= 128 + LAST_SIGNAL) {
    return { ...base, signal: record.code - 128, signalGuessed: true };
  }
  return base;
}

/** The exit as the process table alone tells it. */
export function exitFromWait(wait: WaitStatus, finishedAtWallMs: number): ExitedStatus {
  return wait.kind === 'exited'
    ? { kind: 'exited', code: wait.code, finishedAtWallMs }
    : { kind: 'exited', code: 128 + wait.signal, signal: wait.signal, finishedAtWallMs };
}

/** Decimal digits and nothing else: an empty or torn file is not there yet. */
export function parseExitFile(text: string): number | undefined {
  const trimmed = text.trim();
  if (!/^\d{1,3}$/.test(trimmed)) return undefined;
  const code = Number(trimmed);
  return code <= 255 ? code : undefined;
}
