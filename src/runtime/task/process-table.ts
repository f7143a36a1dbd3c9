import type { WaitStatus } from './exit-status.ts';
import type { Op } from '../../lib/abort.ts';

/** A process for as long as this boot lasts. */
export interface ProcessIdentity {
  readonly pid: number;
  /** Field 22 of /proc/PID/stat. */
  readonly startTimeTicks: number;
}

export interface ProcessView extends ProcessIdentity {
  /** One letter, as in /proc/PID/stat: `Z` is dead and not reaped. */
  readonly state: string;
  /** Raw wait status (field 52); says something only for a `Z`. */
  readonly exitCode?: number;
}

/** What this room needs of the process table; `linux/procfs` and `linux/pidfd` have it. */
export interface ProcessTable {
  view(pid: number): Promise<ProcessView | undefined>;
  /** Sends through a pidfd whose start time was compared. False: the process is gone (or is another one now). */
  signal(identity: ProcessIdentity, signal: number): Promise<boolean>;
  /** Calls back once when the process ends; at once when it has. `status` where the kernel can still tell. */
  watch(identity: ProcessIdentity, onExit: (status: WaitStatus | undefined) => void): Disposable;
}

/** What this room needs of the cgroups; `linux/cgroups` has it. Paths are below the cgroup mounts. */
export interface TaskCgroups {
  create(path: string): Promise<void>;
  moveProcess(path: string, pid: number): Promise<void>;
  procs(path: string, recursive: boolean): Promise<number[]>;
  /** SIGKILL to everything in it and below. */
  killAll(op: Op, path: string): Promise<void>;
  remove(op: Op, path: string): Promise<void>;
  oomKillCount(path: string): Promise<number>;
}
