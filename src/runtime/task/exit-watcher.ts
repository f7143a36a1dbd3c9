import type { Clock } from '../../lib/clock.ts';
import { notImplemented } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import type { ExitStatus } from './exit-status.ts';
import type { ProcessTable } from './process-table.ts';
import type { Task } from './task.ts';

export interface ExitWatcherDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly processes: ProcessTable;
  readonly exitsDir: string;
  /** The kernel's count of OOM kills in a cgroup; absent: no `oom` in exit statuses. */
  readonly oomKillCount?: (cgroupPath: string) => Promise<number>;
  /** Exactly once per armed id. */
  readonly onExit: (id: string, status: ExitStatus) => void;
  /** At most once, after an exit had to be told without its file and the file came after all. */
  readonly onCorrection?: (id: string, status: ExitStatus) => void;
}

export interface WatchedTask extends Pick<
  Task,
  'id' | 'pid' | 'startTimeTicks' | 'conmonPid' | 'conmonStartTimeTicks' | 'cgroupPath'
> {
  /** Whether we have sent it a SIGKILL (an earlier process of this Gantry included): then no OOM is to blame. */
  readonly weSentKill?: () => boolean;
}

/** Watch and process table wake it, a look every second finds what nothing told (DESIGN.md, idea 5). */
export class ExitWatcher {
  constructor(_deps: ExitWatcherDeps) {}
  /** Opens the watch. */
  start(): Promise<void> {
    throw notImplemented('');
  }
  /** From now on this task's exit is told, also one that is past. Disposing ends that. */
  arm(_task: WatchedTask): Disposable {
    throw notImplemented('');
  }
  /** Looks at every armed task now. */
  look(): Promise<void> {
    throw notImplemented('');
  }
  close(): Promise<void> {
    throw notImplemented('');
  }
}
