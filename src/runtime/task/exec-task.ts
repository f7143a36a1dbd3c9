import { EXEC_OUTPUT_CAP_BYTES } from '../../cri/exec-output-cap.ts';
import { childSignal, type Op } from '../../lib/abort.ts';
import { CappedOutput } from './capped-output.ts';
import { endsWithin } from './ends-within.ts';
import type { ExecStdio } from './exec-stdio.ts';
import { NotStarted, runExec } from './run-exec.ts';
import type { TaskContext } from './task-context.ts';
import type { ExecOutcome, ExecRequest, Task } from './task.ts';

/** A background process that the command left holds the pipes open: what came until then is the output. */
const DRAIN_MS = 250;

/**
 * Runs a command to its end and returns what it wrote. When its time is up or the caller leaves, everything it has started is killed.
 * Throws DeadlineExceeded then; NotFound for a missing command; FailedPrecondition when the container does not run;
 * Unavailable when the command's end cannot be learnt.
 */
export async function execInTask(op: Op, context: TaskContext, task: Task, request: ExecRequest): Promise<ExecOutcome> {
  const timeoutMs = request.timeoutMs ?? 0;
  using child = childSignal(
    op.signal,
    timeoutMs > 0 ? { clock: context.clock, timeoutMs, what: `exec ${request.argv[0] ?? ''}` } : undefined,
  );
  using stdout = new CappedOutput(EXEC_OUTPUT_CAP_BYTES);
  using stderr = new CappedOutput(EXEC_OUTPUT_CAP_BYTES);
  try {
    const stdio = collectInto(context, stdout, stderr);
    const exitCode = await runExec({ ...op, signal: child.signal }, context, task, request, stdio);
    return {
      exitCode,
      stdout: stdout.bytes(),
      stderr: stderr.bytes(),
      truncated: stdout.truncated || stderr.truncated,
    };
  } catch (error) {
    throw error instanceof NotStarted ? error.why : error;
  }
}

function collectInto(context: TaskContext, stdout: CappedOutput, stderr: CappedOutput): ExecStdio {
  return {
    terminal: false,
    open: () => {
      const pipes = [stdout.pipe(), stderr.pipe()] as const;
      return Promise.resolve({
        stdin: null,
        stdout: pipes[0].writeFd,
        stderr: pipes[1].writeFd,
        runtimeOptions: [],
        closeOurs: () => {
          for (const pipe of pipes) pipe.closeWriter();
        },
      });
    },
    started: () => undefined,
    words: () => Promise.resolve(Buffer.from(stderr.bytes()).toString('utf8')),
    drained: async () => {
      await endsWithin(context.clock, Promise.all([stdout.ended, stderr.ended]), DRAIN_MS);
    },
    hangUp: () => false,
  };
}
