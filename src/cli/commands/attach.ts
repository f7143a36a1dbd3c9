import { invalidArgument } from '../../lib/errors.ts';
import { chooseLiveContainer, type ContainerChoice } from '../choose-container.ts';
import { line, type CliContext, type ExitCode } from '../context.ts';
import { runSession } from '../streams/run-session.ts';
import { wantedTerminal, type TerminalWish } from '../streams/wanted-terminal.ts';

export interface AttachOptions extends ContainerChoice, TerminalWish {}

/** Joins us to the first process of a container that runs, until it ends or we go. */
export async function attach(context: CliContext, options: AttachOptions): Promise<ExitCode> {
  const { namespace, name, stdin, quiet } = options;
  const { pod, container } = await chooseLiveContainer(context, options, 'cannot attach a container');
  const spec = pod.spec.containers.find((each) => each.name === container);
  if (spec === undefined)
    throw invalidArgument(`cannot attach to the container: container ${container} not found in pod ${name}`);
  const hasTty = spec.tty === true;
  if (options.tty && !hasTty && !quiet) {
    await line(context.err, `error: Unable to use a TTY - container ${container} did not allocate one`);
  }
  // One that was started with a terminal is attached to with one, asked for or not.
  const tty = await wantedTerminal(context, { stdin, quiet, tty: hasTty });
  if (!quiet) await line(context.err, "If you don't see a command prompt, try pressing enter.");
  const { streams } = await context.api();
  await runSession(
    context,
    streams,
    {
      ...{ kind: 'attach', namespace, name, container },
      ...{ stdin, stdout: true, stderr: !hasTty, tty },
    },
    { redraw: true },
  );
  if (!quiet && tty && (pod.spec.restartPolicy ?? 'Always') === 'Always') {
    const again = `gantry attach ${name} -c ${container} -i -t`;
    await line(context.out, `Session ended, resume using '${again}' command when the pod is running`);
  }
  return 0;
}
