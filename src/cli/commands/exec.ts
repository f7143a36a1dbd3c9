import { chooseContainer } from '../choose-container.ts';
import { line, type CliContext, type ExitCode } from '../context.ts';
import { EXEC_OUTPUT_CAP_BYTES } from '../../cri/exec-output-cap.ts';
import type { ExecOutcome, ExecRequest } from '../../kube/gantry-extensions.ts';

const CAP = `${String(EXEC_OUTPUT_CAP_BYTES >> 20)} MiB`;
/** After which somebody who waits for output wonders. */
const SAY_AFTER_MS = 2_000;

/**
 * `gantry exec`: runs a command in a container and ends with its exit code, or with 1 if that is 0 and not all of the output is there.
 */
export async function exec(context: CliContext, request: ExecRequest): Promise<ExitCode> {
  const { gantry, kube } = await context.api();
  const container = await chooseContainer(context, kube, request);
  const outcome = await tellOfWaiting(
    context,
    gantry.execSync(context.op, { ...request, ...(container === undefined ? {} : { container }) }),
  );
  await context.out.write(outcome.stdout);
  await context.err.write(outcome.stderr);
  const { cutOff, exitCode } = outcome;
  if (cutOff.length > 0) {
    await line(
      context.err,
      `error: ${cutOff.join(' and ')} ${cutOff.length > 1 ? 'are' : 'is'} cut off at ${CAP}: what came after it is lost`,
    );
  }
  if (exitCode !== 0) await line(context.err, `command terminated with exit code ${String(exitCode)}`);
  return exitCode === 0 && cutOff.length > 0 ? 1 : exitCode;
}

/** There is nothing to be seen of a command before it ends: `exec POD -- yes` would look as if it hung. */
async function tellOfWaiting({ clock, err }: CliContext, outcome: Promise<ExecOutcome>): Promise<ExecOutcome> {
  const timer = clock.after(SAY_AFTER_MS, () => {
    void line(
      err,
      `the command runs; what it prints is shown when it has ended, the first ${CAP} of it (Ctrl-C ends it)`,
    );
  });
  try {
    return await outcome;
  } finally {
    timer.cancel();
  }
}
