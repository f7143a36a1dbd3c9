import { randomBytes } from 'node:crypto';
import { readdir, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Op } from '../../lib/abort.ts';
import { errnoOf } from '../../lib/errors.ts';
import { unlinkIfThere } from '../../lib/may-be-gone.ts';
import type { TaskContext } from './task-context.ts';
import type { Task } from './task.ts';

/** With which the names of the cgroups of execs begin. */
export const EXEC_PREFIX = 'exec-';

/** What one exec has for itself. Its folder is there as long as the exec is: the next daemon ends what it finds there. */
export interface ExecPlace {
  readonly dir: string;
  readonly processFile: string;
  readonly pidFile: string;
  readonly runtimeLog: string;
  /** Where the OCI runtime hands over a terminal. */
  readonly consoleSocket: string;
  /** Below the container's own cgroup: so that a timeout finds all that the command has started. */
  readonly cgroup: string;
  readonly cgroupName: string;
}

export function newExecPlace(context: TaskContext, task: Task): ExecPlace {
  const cgroupName = `${EXEC_PREFIX}${randomBytes(6).toString('hex')}`;
  const dir = join(context.execDir, cgroupName);
  return {
    dir,
    processFile: join(dir, 'process.json'),
    pidFile: join(dir, 'pid'),
    runtimeLog: join(dir, 'runtime.log'),
    consoleSocket: join(dir, 'tty'),
    cgroup: `${task.cgroupPath}/${cgroupName}`,
    cgroupName,
  };
}

export async function leaveExecPlace(op: Op, context: TaskContext, place: ExecPlace): Promise<void> {
  await removeExecDir(op, context, place.dir);
  await context.faults.reach('exec/folder-removed');
  try {
    await context.cgroups.removeSubgroup(op, place.cgroup, EXEC_PREFIX);
  } catch (error) {
    // What the command has left in the background keeps its cgroup, which then goes with the container's own.
    if ((await context.cgroups.procs(place.cgroup, true)).length === 0) throw error;
  }
}

export async function removeExecDir(op: Op, context: TaskContext, dir: string): Promise<void> {
  for (let pauseMs = 1; ; pauseMs *= 2) {
    // Not by name: a runtime that was killed leaves half-written files.
    for (const name of await readdir(dir)) await unlinkIfThere(join(dir, name));
    try {
      await rmdir(dir);
      return;
    } catch (error) {
      if (errnoOf(error) !== 'ENOTEMPTY') throw error;
      await context.clock.sleep(pauseMs, op.signal);
    }
  }
}
