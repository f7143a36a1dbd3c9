import { invalidArgument } from '../../lib/errors.ts';
import { chooseLiveContainer, type ContainerChoice } from '../choose-container.ts';
import { line, type CliContext, type ExitCode } from '../context.ts';
import { runSession } from '../streams/run-session.ts';
import { wantedTerminal, type TerminalWish } from '../streams/wanted-terminal.ts';

export interface ExecOptions extends ContainerChoice, TerminalWish {
  readonly command: readonly string[];
}

/** Runs a command in a container, with our stdin, stdout, stderr and terminal as far as they are asked for; its exit code becomes ours. */
export async function exec(context: CliContext, options: ExecOptions): Promise<ExitCode> {
  const { namespace, name, command, stdin } = options;
  if (command.length === 0) throw invalidArgument('you must specify at least one command for the container');
  const { container } = await chooseLiveContainer(context, options, 'cannot exec into a container');
  const { streams } = await context.api();
  const tty = await wantedTerminal(context, options);
  const exitCode = await runSession(context, streams, {
    ...{ kind: 'exec', namespace, name, container, command },
    ...{ stdin, stdout: true, stderr: !tty, tty },
  });
  if (exitCode !== 0) await line(context.err, `command terminated with exit code ${exitCode}`);
  return exitCode;
}
