import { withLimit, type Op } from '../../lib/abort.ts';
import { messageOf } from '../../lib/errors.ts';
import type { RuntimeContext } from '../context.ts';
import type { Task } from '../task/task.ts';

/** For the OCI runtime's word. A stop that is asked for meanwhile waits no longer than that for its turn. */
const STATE_TIMEOUT_MS = 10_000;

/** What the world says of a container's first process. */
export interface TaskFound {
  /** By pid and start time. `unverifiable`: a question failed. `none`: no task is known. */
  readonly process: 'alive' | 'gone' | 'unverifiable' | 'none';
  /** The OCI runtime's own word; asked only where the OCI runtime was told to let the command go, and nobody knows whether it has. */
  readonly runtimeStatus?: string;
}

/** From now on the exit of a container's first process is told, also one that is past. */
export function armExit(rt: RuntimeContext, task: Task): void {
  const weSentKill = (): boolean => (rt.containers.get(task.id)?.status.stop?.kills ?? 0) > 0;
  rt.exits.arm({ ...task, weSentKill });
}

/** Never throws: a question that fails is an answer, too. `released`: the command may have been let go. */
export async function lookAtTask(op: Op, rt: RuntimeContext, task: Task, released: boolean): Promise<TaskFound> {
  const { id } = task;
  try {
    if (!(await rt.processes.alive(task.pid, task.startTimeTicks))) return { process: 'gone' };
    if (!released) return { process: 'alive' };
    // It may run for all we know, and its end must be heard of however long the answer takes: a stop waits for nothing else.
    armExit(rt, task);
    const what = `asking for the state of container ${id}`;
    const state = await withLimit(op, rt.clock, STATE_TIMEOUT_MS, what, (limited) => rt.tasks.state(limited, task));
    return { process: 'alive', ...(state === undefined ? {} : { runtimeStatus: state.status }) };
  } catch (error) {
    op.log.warn({ containerId: id, error: messageOf(error) }, 'a container could not be looked at');
    return { process: 'unverifiable' };
  }
}

/**
 * Whether a command ran that the OCI runtime was told to let go, when that call was cut off or failed: it may have failed late. Only a
 * process that lives and still waits for the word has not. Pure.
 */
export function hasCommandRun({ process, runtimeStatus }: TaskFound): boolean | undefined {
  if (process === 'unverifiable') return undefined;
  return !(process === 'alive' && runtimeStatus === 'created');
}
