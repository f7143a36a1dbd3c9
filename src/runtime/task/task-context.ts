import { join } from 'node:path';
import type { Clock } from '../../lib/clock.ts';
import { NO_FAULTS, type FaultPoints } from '../../lib/fault-points.ts';
import type { OciRuntime } from '../oci/oci-runtime.ts';
import { SOCKETS_FOLDER } from './bundle-files.ts';
import type { ExitFolders } from './exit-file.ts';
import type { ProcessTable } from './process-table.ts';
import type { TaskCgroups } from './task-cgroups.ts';

export interface TaskServiceDeps {
  readonly clock: Clock;
  readonly processes: ProcessTable;
  readonly cgroups: TaskCgroups;
  /** For new tasks; an older task keeps the one that made it. */
  readonly runtime: OciRuntime;
  /** Path of conmon. */
  readonly conmon: string;
  /** Path of `cp`, by which conmon keeps a copy of an exit file on the disk. */
  readonly cp: string;
  /** Cgroup leaf that the monitors are put in before they start anything; absent: they stay in the daemon's. */
  readonly monitorCgroup?: string;
  readonly exits: ExitFolders;
  /** Volatile, and no longer than {@link longestStateDir} (the attach sockets' paths must fit an address); `socks/` and `exec/` are made in it. */
  readonly stateDir: string;
  readonly faults?: FaultPoints;
}

export interface TaskContext extends TaskServiceDeps {
  readonly socketsDir: string;
  readonly execDir: string;
  readonly faults: FaultPoints;
}

export function taskContext(deps: TaskServiceDeps): TaskContext {
  return {
    ...deps,
    socketsDir: join(deps.stateDir, SOCKETS_FOLDER),
    execDir: join(deps.stateDir, 'exec'),
    faults: deps.faults ?? NO_FAULTS,
  };
}
