import { pipeline } from 'node:stream/promises';
import type { PodCommandRequest, PodStreams, RemoteSession } from '../../kube/streams/pod-streams.ts';
import type { CliContext } from '../context.ts';
import type { Terminal } from '../terminal/terminal.ts';

export interface SessionOptions {
  /** The window is shown as one of another size at first: a program that draws its own screen draws it anew. */
  readonly redraw?: boolean;
}

/** Long enough that the two sizes are not taken for one change. */
const REDRAW_AFTER_MS = 100;

/**
 * Joins this program's stdin, stdout and stderr to a command in a container, to the end of the command or of the op. With `tty` in the
 * request, the terminal is the command's for that time: every key, and each new size. Resolves with the exit code.
 */
export async function runSession(
  context: CliContext,
  streams: PodStreams,
  request: PodCommandRequest,
  options: SessionOptions = {},
): Promise<number> {
  const terminal = context.terminal();
  const session = await streams.run(context.op, request);
  try {
    using held = new DisposableStack();
    if (request.tty) {
      held.use(terminal.rawMode());
      held.use(followSize(context, terminal, session, options));
    }
    if (request.stdin) terminal.stdin.pipe(session.stdin);
    const output = Promise.all([
      pipeline(session.stdout, terminal.stdout, { end: false }),
      pipeline(session.stderr, terminal.stderr, { end: false }),
    ]);
    const [exitCode] = await Promise.all([session.ended, output]);
    return exitCode;
  } finally {
    if (request.stdin) {
      terminal.stdin.unpipe(session.stdin);
      terminal.stdin.pause();
    }
    session.close();
  }
}

function followSize(
  { clock }: CliContext,
  terminal: Terminal,
  session: RemoteSession,
  { redraw = false }: SessionOptions,
): Disposable {
  const tell = (): void => {
    const size = terminal.size();
    if (size !== undefined) session.resize(size);
  };
  const size = terminal.size();
  const listening = terminal.onResize(tell);
  if (size === undefined || !redraw) {
    tell();
    return listening;
  }
  session.resize({ width: size.width + 1, height: size.height + 1 });
  const timer = clock.after(REDRAW_AFTER_MS, tell);
  return {
    [Symbol.dispose]: () => {
      timer.cancel();
      listening[Symbol.dispose]();
    },
  };
}
