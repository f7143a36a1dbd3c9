import { chooseContainer } from '../choose-container.ts';
import { line, type CliContext, type ExitCode } from '../context.ts';
import type { ExecRequest } from '../../kube/gantry-extensions.ts';

/** `gantry exec`: runs a command in a container and ends with its exit code. */
export async function exec(context: CliContext, request: ExecRequest): Promise<ExitCode> {
  const { gantry, kube } = await context.api();
  const container = await chooseContainer(context, kube, request);
  const outcome = await gantry.execSync(context.op, { ...request, ...(container === undefined ? {} : { container }) });
  await context.out.write(outcome.stdout);
  await context.err.write(outcome.stderr);
  if (outcome.exitCode !== 0) {
    await line(context.err, `command terminated with exit code ${String(outcome.exitCode)}`);
  }
  return outcome.exitCode;
}
