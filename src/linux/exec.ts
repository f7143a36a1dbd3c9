import type { Readable } from 'node:stream';
import type { Op } from '../lib/abort.ts';
import { canceled, GantryError, isKind, messageOf } from '../lib/errors.ts';
import { inputPipe, outputPipe } from './pipe.ts';
import { spawnProcess, type Child } from './spawn.ts';

export interface ExecOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Written to stdin, which is then closed. Without it stdin is /dev/null. */
  readonly input?: string | Uint8Array;
  /** Output beyond this many bytes per stream is thrown away (default 1 MiB). */
  readonly maxOutputBytes?: number;
}

export interface ExecResult {
  /** Exit code; -1 when a signal ended it. */
  readonly code: number;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

const DEFAULT_MAX_OUTPUT_BYTES = 1 << 20;

/**
 * Runs a program to its end: argv only, never a shell. When the op's signal fires, the program and all that it
 * started in its process group are killed and the promise rejects with the signal's reason.
 * A program that cannot be started at all rejects with NotFound or Internal; a non-zero exit is a result, not an error.
 */
export async function execFile(
  op: Op,
  file: string,
  args: readonly string[],
  options: ExecOptions = {},
): Promise<ExecResult> {
  if (isAborted(op)) throw reasonOf(op.signal);
  using pipes = new Pipes(file, options);
  const child = await start(file, args, options, pipes);
  const { promise: given, reject: giveUp } = Promise.withResolvers<never>();
  const onAbort = (): void => {
    // Those that left the group keep the pipes open for as long as they like: nobody waits for them.
    child.killGroup('SIGKILL');
    child.unref();
    giveUp(reasonOf(op.signal));
  };
  op.signal.addEventListener('abort', onAbort, { once: true });
  try {
    // The start took a moment.
    if (isAborted(op)) onAbort();
    const { code, signal } = await Promise.race([
      given,
      Promise.all([child.exited, pipes.ended]).then(([exit]) => exit),
    ]);
    return { code, signal, stdout: pipes.stdout.text(), stderr: pipes.stderr.text() };
  } finally {
    op.signal.removeEventListener('abort', onAbort);
  }
}

async function start(file: string, args: readonly string[], options: ExecOptions, pipes: Pipes): Promise<Child> {
  try {
    return await spawnProcess({
      file,
      args,
      cwd: options.cwd ?? '/',
      env: options.env ?? process.env,
      fds: [pipes.stdin?.readFd ?? null, pipes.stdout.pipe.writeFd, pipes.stderr.pipe.writeFd],
    });
  } catch (error) {
    throw isKind(error, 'NotFound')
      ? new GantryError('NotFound', `${file}: no such program`, { cause: error })
      : cannotBeStarted(file, error);
  } finally {
    pipes.handedOver(options.input);
  }
}

function cannotBeStarted(file: string, error: unknown): GantryError {
  return new GantryError('Internal', `${file}: cannot be started: ${messageOf(error)}`, { cause: error });
}

/** The three streams of one program, on our side. */
class Pipes implements Disposable {
  readonly stdin: ReturnType<typeof inputPipe> | undefined;
  readonly stdout: Collected;
  readonly stderr: Collected;
  readonly ended: Promise<unknown>;

  constructor(file: string, { input, maxOutputBytes }: ExecOptions) {
    using made = new DisposableStack();
    try {
      this.stdout = made.use(new Collected(maxOutputBytes));
      this.stderr = made.use(new Collected(maxOutputBytes));
      if (input !== undefined) this.stdin = inputPipe();
    } catch (error) {
      throw cannotBeStarted(file, error);
    }
    made.move();
    this.ended = Promise.all([this.stdout.ended, this.stderr.ended]);
  }

  /** The program has its ends now, or there will be none. */
  handedOver(input: string | Uint8Array | undefined): void {
    this.stdout.pipe.closeWriter();
    this.stderr.pipe.closeWriter();
    this.stdin?.closeReader();
    this.stdin?.writer.end(input);
  }

  [Symbol.dispose](): void {
    this.stdout[Symbol.dispose]();
    this.stderr[Symbol.dispose]();
    this.stdin?.closeReader();
    this.stdin?.writer.destroy();
  }
}

/** What a program writes to one stream, up to so many bytes; the rest is read and thrown away. */
class Collected implements Disposable {
  readonly pipe = outputPipe();
  readonly ended: Promise<void>;
  readonly #chunks: Buffer[] = [];
  #size = 0;

  constructor(maxBytes = DEFAULT_MAX_OUTPUT_BYTES) {
    const { reader } = this.pipe;
    reader.on('data', (chunk: Buffer) => {
      if (this.#size >= maxBytes) return;
      this.#chunks.push(chunk.subarray(0, maxBytes - this.#size));
      this.#size += chunk.length;
    });
    this.ended = closed(reader);
  }

  text(): string {
    return Buffer.concat(this.#chunks).toString('utf8');
  }

  [Symbol.dispose](): void {
    this.pipe.closeWriter();
    this.pipe.reader.destroy();
  }
}

function closed(stream: Readable): Promise<void> {
  return new Promise((resolve) => {
    stream.once('close', resolve);
    stream.once('error', () => resolve());
  });
}

function isAborted({ signal }: Op): boolean {
  return signal.aborted;
}

function reasonOf(signal: AbortSignal): Error {
  const reason: unknown = signal.reason;
  return reason instanceof Error ? reason : canceled('canceled');
}
