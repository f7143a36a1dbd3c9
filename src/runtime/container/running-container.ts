import { failedPrecondition } from '../../lib/errors.ts';
import type { RuntimeContext } from '../context.ts';
import type { ContainerMeta } from '../store/container-record.ts';
import type { Task } from '../task/task.ts';
import { canExec, describe, taskOf, type ContainerStatus } from './state.ts';

export interface RunningContainer {
  readonly id: string;
  readonly meta: ContainerMeta;
  readonly status: ContainerStatus;
  readonly task: Task;
}

/** By id, or what is enough of one. Throws NotFound, and FailedPrecondition with `so` for a container that does not run. */
export function runningContainer(
  { containers }: Pick<RuntimeContext, 'containers'>,
  idOrPrefix: string,
  so: string,
): RunningContainer {
  const { meta, status } = containers.must(containers.resolve(idOrPrefix) ?? idOrPrefix);
  const task = taskOf(status);
  if (!canExec(status) || task === undefined) {
    throw failedPrecondition(`container ${meta.id} is ${describe(status)}: ${so}`);
  }
  return { id: meta.id, meta, status, task };
}
