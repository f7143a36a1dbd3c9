import { dirname } from 'node:path';
import type { Op } from '../../lib/abort.ts';
import { failedPrecondition } from '../../lib/errors.ts';
import type { Cgroups } from '../../linux/cgroups.ts';
import { changeOomScores } from '../../linux/oom-scores.ts';
import type { UnitCgroups } from '../../linux/unit-cgroups.ts';

/** What this room needs of the cgroups. Paths are below the cgroup mounts; one that is not there holds nothing. */
export interface TaskCgroups {
  /** A cgroup for some of the processes of its parent, without limits of its own. FailedPrecondition when the parent is gone. */
  createSubgroup(path: string): Promise<void>;
  /**
   * Takes away what createSubgroup has made. When an OOM kill would be forgotten with it, it stays until its parent goes, unless another
   * whose name begins with `prefix` tells of one. Unavailable while processes are in it.
   */
  removeSubgroup(op: Op, path: string, prefix: string): Promise<void>;
  moveProcess(path: string, pid: number): Promise<void>;
  procs(path: string, recursive: boolean): Promise<number[]>;
  /** Of its processes that have `before`; see linux/oom-scores. */
  changeOomScores(path: string, before: number, value: number): Promise<void>;
  /** SIGKILL to everything in it and below, until nothing is left. */
  killAll(op: Op, path: string): Promise<void>;
  /** With what is below it, and what of systemd's goes with it. Unavailable while processes are in it. */
  remove(op: Op, path: string): Promise<void>;
}

export function linuxTaskCgroups(cgroups: Cgroups, unitCgroups: Pick<UnitCgroups, 'remove'> = cgroups): TaskCgroups {
  return {
    createSubgroup: (path) => createSubgroup(cgroups, path),
    removeSubgroup: (op, path, prefix) => cgroups.removeBelow(op, path, prefix),
    moveProcess: (path, pid) => cgroups.moveProcess(path, pid),
    procs: (path, recursive) => cgroups.procs(path, recursive),
    changeOomScores: (path, before, value) =>
      changeOomScores(() => cgroups.procs(path, true), String(before), String(value)),
    killAll: (op, path) => cgroups.killAll(op, path),
    remove: (op, path) => unitCgroups.remove(op, path),
  };
}

async function createSubgroup(cgroups: Cgroups, path: string): Promise<void> {
  if (!(await cgroups.createBelow(path))) {
    throw failedPrecondition(`cgroup ${dirname(path)} is gone: its container has ended`);
  }
}
