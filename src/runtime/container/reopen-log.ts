import type { ReopenContainerLogRequest, ReopenContainerLogResponse } from '../../cri/gen/api.ts';
import type { Op } from '../../lib/abort.ts';
import { failedPrecondition } from '../../lib/errors.ts';
import type { RuntimeContext } from '../context.ts';
import { canExec, describe, taskOf } from './state.ts';

/** Opens the log anew after it was renamed. Beside the lane. Throws NotFound, FailedPrecondition (not running). */
export async function reopenContainerLog(
  op: Op,
  rt: RuntimeContext,
  { containerId }: ReopenContainerLogRequest,
): Promise<ReopenContainerLogResponse> {
  const { meta, status } = rt.containers.must(rt.containers.resolve(containerId) ?? containerId);
  const task = taskOf(status);
  if (!canExec(status) || task === undefined) {
    throw failedPrecondition(`container ${meta.id} is ${describe(status)}: it writes no log now`);
  }
  await rt.tasks.reopenLog(op, task);
  return {};
}
