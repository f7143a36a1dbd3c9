import { constants, open, readdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Op } from '../../lib/abort.ts';
import { deadlineExceeded, errnoOf, failedPrecondition, notFound, unavailable } from '../../lib/errors.ts';
import { bundleFiles } from './bundle-files.ts';
import { isAlive } from './process-end.ts';
import type { TaskContext } from './task-context.ts';
import type { Task } from './task.ts';

const REACTION_MS = 5_000;
const LOOK_MS = 10;

/** conmon's control message: reopen the logs. */
const REOPEN = '2 0 0\n';

/**
 * Makes the monitor write to a new file at the log's path, after the old one was renamed. Without a renamed file nothing
 * happens: conmon would put an empty file in the old one's place.
 * Throws FailedPrecondition when the container ends before it is done, NotFound when the log's folder is gone (conmon dies of that),
 * Unavailable when the monitor of a container that runs is gone, DeadlineExceeded when it does not react.
 */
export async function reopenLog(op: Op, context: TaskContext, task: Task): Promise<void> {
  const { logPath } = task;
  if (logPath === undefined) throw failedPrecondition(`task ${task.id}: has no log`);
  await demandMonitor(context, task);
  if (await holds(task.conmonPid, logPath)) return;
  if ((await inode(dirname(logPath))) === undefined) throw notFound(`${dirname(logPath)}: no such folder`);
  await tell(bundleFiles(task.bundleDir).ctl, task.id);
  const endMs = context.clock.monotonicMs() + REACTION_MS;
  while (!(await holds(task.conmonPid, logPath))) {
    if (context.clock.monotonicMs() > endMs) {
      throw deadlineExceeded(`task ${task.id}: its monitor (process ${task.conmonPid}) does not reopen the log`);
    }
    await context.clock.sleep(LOOK_MS, op.signal);
    await demandMonitor(context, task);
  }
}

async function demandMonitor({ processes }: TaskContext, task: Task): Promise<void> {
  const monitor = { pid: task.conmonPid, startTimeTicks: task.conmonStartTimeTicks };
  if (await isAlive(processes, monitor)) return;
  const running = await isAlive(processes, task);
  if (!running) throw failedPrecondition(`task ${task.id}: has ended, it writes no log any more`);
  throw unavailable(`task ${task.id}: its monitor is gone, the log cannot be reopened`);
}

/** Does nothing when the monitor has closed its end, as one that ends does: who waits for it sees that. */
async function tell(ctl: string, id: string): Promise<void> {
  try {
    // Without a reader opening fails instead of waiting for one.
    await using pipe = await open(ctl, constants.O_WRONLY | constants.O_NONBLOCK);
    await pipe.write(REOPEN);
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === 'ENOENT')
      throw unavailable(`task ${id}: its monitor cannot be told, ${ctl} is gone`, { cause: error });
    if (errno !== 'ENXIO' && errno !== 'EPIPE') throw error;
  }
}

/** Whether one of the process's open files is the file that is at the path now. */
async function holds(pid: number, path: string): Promise<boolean> {
  const wanted = await inode(path);
  if (wanted === undefined) return false;
  for (const fd of await readdir(`/proc/${pid}/fd`).catch(() => [])) {
    if ((await inode(`/proc/${pid}/fd/${fd}`)) === wanted) return true;
  }
  return false;
}

async function inode(path: string): Promise<string | undefined> {
  try {
    const { dev, ino } = await stat(path, { bigint: true });
    return `${dev}:${ino}`;
  } catch {
    return undefined;
  }
}
