import type { Op } from '../../lib/abort.ts';
import { isKind } from '../../lib/errors.ts';
import { written } from './output-pump.ts';
import { PipedStdio } from './piped-stdio.ts';
import type { RemoteStdio } from './remote-stdio.ts';
import { NotStarted, runExec } from './run-exec.ts';
import type { TaskContext } from './task-context.ts';
import { TerminalStdio } from './terminal-stdio.ts';
import type { StreamedExec, Task } from './task.ts';

/** As shells and docker have it, so that a client gets a code where it waits for one. */
const NOT_FOUND_CODE = 127;
const NOT_EXECUTABLE_CODE = 126;

/**
 * Runs a command inside a running container with a client's streams as its own, and returns its exit code: 127 for a missing command, 126
 * for one that may not be run, with the OCI runtime's words on the client's stderr (stdout with a terminal).
 *
 * The command is held up by a client that reads slowly. A client that vanishes (the op's signal) hangs up its terminal: what ends
 * then ends by itself, and what does not so within two seconds is killed with all that it started, as everything without a
 * terminal is at once. Background processes that a command leaves behind live on, and keep nobody waiting.
 * Throws FailedPrecondition when the container does not run; Unavailable when the command's end cannot be learnt.
 */
export async function streamExec(
  op: Op,
  context: TaskContext,
  task: Task,
  { terminal, ...command }: StreamedExec,
  remote: RemoteStdio,
): Promise<number> {
  try {
    if (terminal) {
      await using stdio = new TerminalStdio(remote, context.clock);
      return await runExec(op, context, task, command, stdio);
    }
    using stdio = new PipedStdio(remote, context.clock);
    return await runExec(op, context, task, command, stdio);
  } catch (error) {
    if (!(error instanceof NotStarted)) throw error;
    const code = codeOf(error.why);
    if (code === undefined) throw error.why;
    const words = terminal ? remote.stdout : remote.stderr;
    if (words !== undefined) await written(words, Buffer.from(`${error.message}${terminal ? '\r\n' : '\n'}`));
    return code;
  }
}

function codeOf(why: Error): number | undefined {
  if (isKind(why, 'NotFound')) return NOT_FOUND_CODE;
  return isKind(why, 'PermissionDenied') ? NOT_EXECUTABLE_CODE : undefined;
}
