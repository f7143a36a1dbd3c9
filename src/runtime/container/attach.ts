import type { AttachRequest, ContainerConfig } from '../../cri/gen/api.ts';
import type { Op } from '../../lib/abort.ts';
import type { RuntimeContext } from '../context.ts';
import type { RemoteCommand } from '../streaming/streams.ts';
import type { AttachRequest as TaskAttachRequest } from '../task/task.ts';
import { runningContainer } from './running-container.ts';

/** Checks what CRI's Attach asks for, before a URL is given out for it. Throws NotFound, FailedPrecondition (not running). */
export function checkAttach(rt: RuntimeContext, request: AttachRequest): AttachRequest {
  const { id } = runningContainer(rt, request.containerId, 'nobody can be attached to it');
  return { ...request, containerId: id };
}

/** Whoever has opened the URL is connected until the container ends. Beside the lane. */
export async function attachWithStreams(
  op: Op,
  rt: RuntimeContext,
  { containerId }: AttachRequest,
  remote: RemoteCommand,
): Promise<void> {
  const { task, meta } = runningContainer(rt, containerId, 'nobody can be attached to it');
  await rt.tasks.attach(op, task, { stdin: stdinOf(meta.config) }, remote);
}

/**
 * What becomes of the container's stdin when a client closes its own. Opened once, it is closed then, except a terminal's: what
 * `kubectl run -it` has left can be attached again.
 */
export function stdinOf({ stdin, stdinOnce, tty }: ContainerConfig): TaskAttachRequest['stdin'] {
  if (!stdin) return 'none';
  return stdinOnce && !tty ? 'closes' : 'stays';
}
