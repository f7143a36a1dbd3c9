import { fitIntoAnswer } from '../../cri/exec-output-cap.ts';
import { demandCommand } from '../../cri/field-checks.ts';
import type { ExecSyncRequest, ExecSyncResponse } from '../../cri/gen/api.ts';
import type { Op } from '../../lib/abort.ts';
import type { RuntimeContext } from '../context.ts';
import { runningContainer } from './running-container.ts';

/**
 * Runs a command in a running container and returns its output and exit code. Beside the lane: it waits for no stop and
 * holds none up. `timeout` seconds (0: none); when they have passed all that the command started is killed and the call
 * throws DeadlineExceeded. Throws NotFound, InvalidArgument, FailedPrecondition (not running).
 */
export async function execSync(
  op: Op,
  rt: RuntimeContext,
  { containerId, cmd, timeout }: ExecSyncRequest,
): Promise<ExecSyncResponse> {
  demandCommand(cmd);
  const container = runningContainer(rt, containerId, 'nothing can be run in it');
  const timeoutMs = Math.max(Number(timeout), 0) * 1000;
  const outcome = await rt.tasks.exec(op, container.task, { argv: cmd, timeoutMs, ...rt.specs.execLimits(container) });
  const [stdout, stderr] = fitIntoAnswer(outcome.stdout, outcome.stderr);
  return { stdout: Buffer.from(stdout), stderr: Buffer.from(stderr), exitCode: outcome.exitCode };
}
