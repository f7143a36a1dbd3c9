import { openPidfd, type WaitStatus } from '../../linux/pidfd.ts';
import type { PidfdWatcher } from '../../linux/pidfd-watcher.ts';
import { processIdentity, type ProcessKey } from '../../linux/procfs.ts';

export interface ProcessView extends ProcessKey {
  /** The program's name, as the kernel keeps it; absent: it was not looked at. */
  readonly comm?: string;
  /** One letter, as in /proc/PID/stat: `Z` is dead and not reaped. */
  readonly state: string;
  readonly ppid: number;
  /** Raw wait status, of a `Z` only. */
  readonly exitCode?: number;
}

/** What this room needs of the process table. */
export interface ProcessTable {
  view(pid: number): Promise<ProcessView | undefined>;
  /** Sends through a pidfd whose start time was compared. False: the process is gone, or is another one now. */
  signal(key: ProcessKey, signal: number): Promise<boolean>;
  /** Calls back once when the process ends; soon when it has. `status` where the kernel can still tell. */
  watch(key: ProcessKey, onExit: (status: WaitStatus | undefined) => void): Disposable;
}

export function linuxProcessTable(watcher: PidfdWatcher): ProcessTable {
  return {
    view: processIdentity,
    signal: (key, signal) => {
      using pidfd = openPidfd(key);
      return Promise.resolve(pidfd?.signal(signal) ?? false);
    },
    watch: (key, onExit) => watcher.watch(key, onExit),
  };
}
