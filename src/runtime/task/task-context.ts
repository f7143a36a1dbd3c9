import type { Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { NO_FAULTS, type FaultPoints } from '../../lib/fault-points.ts';
import type { RuntimePaths } from '../store/paths.ts';
import type { ExitFolders } from './exit-file.ts';
import { MonitorConnections, type Packets } from './monitor-connections.ts';
import type { ProcessTable } from './process-table.ts';
import type { TaskCgroups } from './task-cgroups.ts';

export interface TaskServiceDeps {
  readonly clock: Clock;
  readonly processes: ProcessTable;
  readonly cgroups: TaskCgroups;
  /** Path of conmon. */
  readonly conmon: string;
  /** Path of `cp`, by which conmon keeps a copy of an exit file on the disk. */
  readonly cp: string;
  /** Cgroup leaf that the monitors are put in before they start anything; absent: they stay in the daemon's. */
  readonly monitorCgroup?: string;
  readonly exits: ExitFolders;
  /** `state` is no longer than {@link longestStateDir}: the attach sockets' paths must fit an address. */
  readonly paths: Pick<RuntimePaths, 'state' | 'sockets' | 'execs'>;
  readonly trees: TaskTrees;
  /** By which clients are attached. */
  readonly packets: Packets;
  /** An OCI runtime could not delete a container, as its record is torn: its folder of that id was taken away without it. */
  readonly onTornRecord?: (id: string, message: string) => void;
  readonly faults?: FaultPoints;
}

/** What this room needs of the only code that deletes trees. */
export interface TaskTrees {
  /** Removes `path` and all below, which lies below `root`. Throws, naming what is in the way, unless all is gone. */
  remove(op: Op, root: string, path: string): Promise<void>;
}

export interface TaskContext extends TaskServiceDeps {
  readonly socketsDir: string;
  readonly execDir: string;
  readonly monitors: MonitorConnections;
  readonly faults: FaultPoints;
}

export function taskContext(deps: TaskServiceDeps): TaskContext {
  return {
    ...deps,
    socketsDir: deps.paths.sockets,
    execDir: deps.paths.execs,
    monitors: new MonitorConnections(deps.packets),
    faults: deps.faults ?? NO_FAULTS,
  };
}
