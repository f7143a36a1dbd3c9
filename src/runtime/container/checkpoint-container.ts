import type { CheckpointContainerRequest, CheckpointContainerResponse } from '../../cri/gen/api.ts';
import type { Op } from '../../lib/abort.ts';
import { notFound, notImplemented } from '../../lib/errors.ts';
import type { RuntimeContext } from '../context.ts';

/** Not there yet, and says so in words; a container that does not exist is told first. Throws NotFound, NotImplemented. */
export function checkpointContainer(
  _op: Op,
  rt: RuntimeContext,
  { containerId }: CheckpointContainerRequest,
): Promise<CheckpointContainerResponse> {
  if (rt.containers.resolve(containerId) === undefined) {
    return Promise.reject(notFound(`container ${containerId} not found`));
  }
  return Promise.reject(
    notImplemented(
      `container ${containerId} cannot be checkpointed: Gantry does not use CRIU, whether this host has it or not`,
    ),
  );
}
