import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Op } from '../../lib/abort.ts';
import { deadlineExceeded, failedPrecondition, messageOf } from '../../lib/errors.ts';
import { namesIn, rmdirIfThere, unlinkIfThere } from '../../lib/may-be-gone.ts';
import { waitingFor } from '../../lib/waits.ts';
import { isUninstalled, OciRuntime } from '../oci/oci-runtime.ts';
import { BUNDLE_LEFTOVERS, bundleFiles, socketName } from './bundle-files.ts';
import { haltMakers } from './find-makers.ts';
import { isAlive, waitGone } from './process-end.ts';
import { isBlockedByTornRecord, recordsIn } from './torn-record.ts';
import type { ProcessKey } from '../../linux/procfs.ts';
import { SIGKILL } from '../../linux/signals.ts';
import type { TaskContext } from './task-context.ts';
import type { Task } from './task.ts';

/** A task, or what is known of one whose create was cut off: then its processes are looked for. */
export type TaskRemains = Pick<Task, 'id' | 'bundleDir' | 'cgroupPath' | 'runtime'> &
  Partial<Pick<Task, 'pid' | 'startTimeTicks' | 'conmonPid' | 'conmonStartTimeTicks'>>;

/** SIGKILL takes effect at once but for a process in state D. */
const KILL_WAIT_MS = 10_000;
/** A monitor ends by itself within milliseconds of its container, unless it is stopped or its log's disk hangs. */
const MONITOR_WAIT_MS = 2_000;
/** One that alone knows how its container ended says so when it has written the rest of the log, however slow that log's disk is. */
const LAST_WORD_WAIT_MS = 60_000;

export interface DeleteOptions {
  /** Kill what lives of it. */
  readonly force?: boolean;
  /** Nobody knows how it ended but perhaps its monitor, which is given its time to say so. */
  readonly exitUnknown?: boolean;
  /** The cgroup that is named is not the container's own, which nobody knows: that it is empty proves nothing. */
  readonly cgroupUnknown?: boolean;
}

/**
 * Removes a task step by step, and looks after each step whether it is so: "not found" from one layer proves nothing
 * about the next (FAILURES.md rows 2 and 3). Every step may have been done before; call it again until it returns.
 * The bundle folder itself and the exit file stay.
 */
export async function deleteTask(
  op: Op,
  context: TaskContext,
  task: TaskRemains,
  options: DeleteOptions = {},
): Promise<void> {
  const monitor = identity(task.conmonPid, task.conmonStartTimeTicks);
  // A create that was cut off may still be at work, and would make anew what is deleted here.
  if (monitor === undefined) await killAndWait(op, context, task, await haltMakers(op, context, task));
  await context.faults.reach('delete-task/makers-ended');
  await endProcesses(op, context, task, options.force === true);
  await context.faults.reach('delete-task/processes-ended');
  await deleteFromRuntime(op, context, task, options);
  await context.faults.reach('delete-task/deleted');
  if (monitor !== undefined) await endMonitor(op, context, task, monitor, options.exitUnknown === true);
  await context.faults.reach('delete-task/monitor-ended');
  for (const name of BUNDLE_LEFTOVERS) await unlinkIfThere(join(task.bundleDir, name));
  await unlinkIfThere(join(context.socketsDir, socketName(task.id)));
  await context.faults.reach('delete-task/files-removed');
  await context.cgroups.remove(op, task.cgroupPath);
  await context.faults.reach('delete-task/cgroup-removed');
}

async function endProcesses(op: Op, context: TaskContext, task: TaskRemains, force: boolean): Promise<void> {
  const init = identity(task.pid, task.startTimeTicks) ?? (await initOfPidFile(context, task));
  if (init !== undefined && (await isAlive(context.processes, init))) {
    // BEHAVIOUR.md J50.
    if (!force) throw failedPrecondition(`task ${task.id}: must be stopped before deletion: process ${init.pid} runs`);
    await context.processes.signal(init, SIGKILL);
  }
  // What a shared or host PID namespace left alive, and what an exec started (FAILURES.md row 29).
  await waitingFor(op, `the processes in ${task.cgroupPath} to end`, () =>
    context.cgroups.killAll(op, task.cgroupPath),
  );
  if (init !== undefined) await mustEnd(op, context, task, init);
}

/** Only believed while the process is one of this container's cgroup: a pid alone may be anybody's. */
async function initOfPidFile(context: TaskContext, task: TaskRemains): Promise<ProcessKey | undefined> {
  const pid = await pidInFile(bundleFiles(task.bundleDir).pidFile);
  if (pid === undefined) return undefined;
  const view = await context.processes.view(pid);
  const members = await context.cgroups.procs(task.cgroupPath, true);
  return view !== undefined && members.includes(pid) ? view : undefined;
}

async function deleteFromRuntime(
  op: Op,
  context: TaskContext,
  task: TaskRemains,
  options: DeleteOptions,
): Promise<void> {
  const runtime = new OciRuntime(task.runtime);
  const stateDir = join(task.runtime.root, task.id);
  try {
    const deleting = runtime.delete(op, task.id, { force: true });
    context.faults.pass('delete-task/deleting');
    await deleting;
  } catch (error) {
    if (op.signal.aborted) throw error;
    // FAILURES.md row 31. Its processes have ended and its cgroup is removed next; what else it keeps is its state folder.
    if (isUninstalled(error)) {
      op.log.warn({ containerId: task.id, runtime: task.runtime.path }, 'its OCI runtime is gone: taken away by hand');
    } else {
      if (!(await isInTheWay(context, task, stateDir, options))) throw error;
      await context.trees.remove(op, task.runtime.root, stateDir);
      const message = `${messageOf(error)}: its record of the container cannot be read, and no process of it is left, so ${stateDir} was taken away without it`;
      op.log.warn({ containerId: task.id }, message);
      context.onTornRecord?.(task.id, message);
    }
  }
  // Some runtimes deny a container whose record is torn and keep its folder, which blocks the id for ever.
  for (const entry of await namesIn(stateDir)) await unlinkIfThere(join(stateDir, entry));
  await rmdirIfThere(stateDir);
}

/** Whether a torn record is all that keeps the OCI runtime from deleting. Its processes have been ended before, and are looked for once more. */
async function isInTheWay(
  context: TaskContext,
  task: TaskRemains,
  stateDir: string,
  { cgroupUnknown = false }: DeleteOptions,
): Promise<boolean> {
  const init = identity(task.pid, task.startTimeTicks);
  return isBlockedByTornRecord({
    records: await recordsIn(stateDir),
    initAlive: init !== undefined && (await isAlive(context.processes, init)),
    processes: cgroupUnknown ? undefined : (await context.cgroups.procs(task.cgroupPath, true)).length,
  });
}

async function endMonitor(
  op: Op,
  context: TaskContext,
  task: TaskRemains,
  monitor: ProcessKey,
  exitUnknown: boolean,
): Promise<void> {
  const { clock, processes } = context;
  const gone = (what: string, waitMs: number): Promise<boolean> =>
    waitingFor(op, `its monitor, process ${monitor.pid}, ${what}`, () =>
      waitGone(op, clock, processes, monitor, waitMs),
    );
  if (await gone('to end', MONITOR_WAIT_MS)) return;
  // conmon reaps the process, writes the rest of the log and only then the exit file: killed before, it takes the code with it.
  const maySpeak = exitUnknown && !(await isStopped(context, monitor));
  if (maySpeak && (await gone('to say how its container ended', LAST_WORD_WAIT_MS))) return;
  op.log.warn({ containerId: task.id, conmonPid: monitor.pid }, 'monitor outlives its container: killed');
  await killAndWait(op, context, task, [monitor]);
}

/** By a signal or a debugger: it says nothing, and what it did not reap is in the process table. */
async function isStopped(context: TaskContext, monitor: ProcessKey): Promise<boolean> {
  const view = await context.processes.view(monitor.pid);
  return view?.state === 'T' || view?.state === 't';
}

async function killAndWait(
  op: Op,
  context: TaskContext,
  task: TaskRemains,
  identities: readonly ProcessKey[],
): Promise<void> {
  for (const process of identities) await context.processes.signal(process, SIGKILL);
  for (const process of identities) await mustEnd(op, context, task, process);
}

async function mustEnd(op: Op, context: TaskContext, task: TaskRemains, process: ProcessKey): Promise<void> {
  const gone = await waitingFor(op, `process ${process.pid} to end`, () =>
    waitGone(op, context.clock, context.processes, process, KILL_WAIT_MS),
  );
  if (gone) return;
  const state = (await context.processes.view(process.pid))?.state ?? '?';
  throw deadlineExceeded(`task ${task.id}: process ${process.pid} does not die of SIGKILL (state ${state})`, {
    details: { pid: process.pid, state },
  });
}

function identity(pid: number | undefined, startTimeTicks: number | undefined): ProcessKey | undefined {
  return pid === undefined || startTimeTicks === undefined ? undefined : { pid, startTimeTicks };
}

async function pidInFile(path: string): Promise<number | undefined> {
  try {
    const pid = Number((await readFile(path, 'utf8')).trim());
    return Number.isSafeInteger(pid) && pid > 0 ? pid : undefined;
  } catch {
    return undefined;
  }
}
