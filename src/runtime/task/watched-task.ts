import type { Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import type { ExitFolder } from './exit-folder.ts';
import type { ExitStatus } from './exit-status.ts';
import type { ProcessTable } from './process-table.ts';
import type { Task } from './task.ts';

export interface ExitWatcherDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly processes: ProcessTable;
  readonly exits: ExitFolder;
  /** The kernel's count of OOM kills in a cgroup; absent: no `oom` in exit statuses. */
  readonly oomKillCount?: (cgroupPath: string) => Promise<number>;
  /** {@link LogLooks.lossIn}; absent: no `logLoss` in exit statuses. May take for ever. */
  readonly logLoss?: (op: Op, logPath: string) => Promise<string | undefined>;
  /** Exactly once per armed id. */
  readonly onExit: (id: string, status: ExitStatus) => void;
  /** When an exit had to be told without its exit file and the file came after all, or before its log had been looked at and it was not whole. */
  readonly onCorrection?: (id: string, status: ExitStatus) => void;
}

export interface WatchedTask extends Pick<
  Task,
  'id' | 'pid' | 'startTimeTicks' | 'conmonPid' | 'conmonStartTimeTicks' | 'cgroupPath' | 'logPath'
> {
  /** Whether we have sent it a SIGKILL (an earlier process of this Gantry included): then no OOM is to blame. */
  readonly weSentKill?: () => boolean;
}
