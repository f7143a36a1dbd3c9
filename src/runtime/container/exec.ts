import { demandCommand } from '../../cri/field-checks.ts';
import type { ExecRequest } from '../../cri/gen/api.ts';
import type { Op } from '../../lib/abort.ts';
import type { RuntimeContext } from '../context.ts';
import type { CommandEnd, RemoteCommand } from '../streaming/streams.ts';
import { runningContainer } from './running-container.ts';

/** Checks what CRI's Exec asks for, before a URL is given out for it. Throws NotFound, InvalidArgument, FailedPrecondition (not running). */
export function checkExec(rt: RuntimeContext, request: ExecRequest): ExecRequest {
  demandCommand(request.cmd);
  const { id } = runningContainer(rt, request.containerId, 'nothing can be run in it');
  return { ...request, containerId: id };
}

/** Whoever has opened the URL runs the command: long after, perhaps, so the container is looked at again. Beside the lane. */
export async function execWithStreams(
  op: Op,
  rt: RuntimeContext,
  { containerId, cmd, tty }: ExecRequest,
  remote: RemoteCommand,
): Promise<CommandEnd> {
  const container = runningContainer(rt, containerId, 'nothing can be run in it');
  const command = { argv: cmd, terminal: tty, ...rt.specs.execLimits(container) };
  return { exitCode: await rt.tasks.streamExec(op, container.task, command, remote) };
}
