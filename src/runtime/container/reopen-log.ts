import type { ReopenContainerLogRequest, ReopenContainerLogResponse } from '../../cri/gen/api.ts';
import type { Op } from '../../lib/abort.ts';
import type { RuntimeContext } from '../context.ts';
import { runningContainer } from './running-container.ts';

/** Opens the log anew after it was renamed. Beside the lane. Throws NotFound, FailedPrecondition (not running). */
export async function reopenContainerLog(
  op: Op,
  rt: RuntimeContext,
  { containerId }: ReopenContainerLogRequest,
): Promise<ReopenContainerLogResponse> {
  const { task } = runningContainer(rt, containerId, 'it writes no log now');
  await rt.tasks.reopenLog(op, task);
  return {};
}
