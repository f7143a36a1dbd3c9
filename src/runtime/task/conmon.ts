import type { Readable } from 'node:stream';
import type { Op } from '../../lib/abort.ts';
import { raceSignal } from '../../lib/abort.ts';
import { GantryError, isKind, messageOf } from '../../lib/errors.ts';
import { outputPipe, type OutputPipe } from '../../linux/pipe.ts';
import { spawnProcess, type Child, type ChildExit } from '../../linux/spawn.ts';

/** One line of conmon's sync pipe (API version 1): a pid or an exit code, or -1 with a message. */
export interface SyncMessage {
  readonly data: number;
  readonly message?: string;
}

export interface ConmonProcess {
  readonly pid: number;
  readonly child: Child;
  /** The next message; undefined when conmon closed the pipe without one. */
  nextMessage(op: Op): Promise<SyncMessage | undefined>;
  /** Resolves when the process that was started (not the one it leaves behind) has ended. */
  readonly exited: Promise<void>;
  /** What it said on stderr so far, shortened. */
  stderr(): string;
  /** How the process that was started ended, and what it said of that; undefined when it ended well. Waits for its end. */
  failure(op: Op): Promise<string | undefined>;
  /** Lets go of the pipes; conmon itself lives on. */
  letGo(): void;
}

export interface ConmonOptions {
  readonly path: string;
  readonly args: readonly string[];
  readonly cwd: string;
  /** Of conmon itself: an exec'd process inherits them when the log is `passthrough`. Absent: what it says on stderr is kept. */
  readonly stdio?: Readonly<Record<'stdin' | 'stdout' | 'stderr', number | null>>;
}

const SYNC_FD = 3;
const STDERR_KEPT = 8192;

/** Starts conmon, which begins its work at once. */
export async function spawnConmon(options: ConmonOptions): Promise<ConmonProcess> {
  using pipes = new ConmonPipes(options.stdio === undefined);
  const child = await start(options, pipes);
  const { sync, stderr: errors } = pipes.handedOver();
  const messages = new MessageReader(sync.reader);
  let stderr = '';
  const allSaid = new Promise<void>((resolve) => {
    if (errors === undefined) resolve();
    else errors.reader.once('close', () => resolve());
  });
  errors?.reader.setEncoding('utf8').on('data', (text: string) => {
    if (stderr.length < STDERR_KEPT) stderr += text;
  });
  return {
    pid: child.pid,
    child,
    exited: child.exited.then(() => undefined),
    nextMessage: (op) => raceSignal(messages.next(), op.signal),
    stderr: () => stderr.trim(),
    failure: async (op) => {
      const [exit] = await raceSignal(Promise.all([child.exited, allSaid]), op.signal);
      return failureWords(exit, stderr);
    },
    letGo: () => {
      sync.reader.destroy();
      errors?.reader.destroy();
      child.unref();
    },
  };
}

async function start(options: ConmonOptions, { sync, stderr }: ConmonPipes): Promise<Child> {
  try {
    return await spawnProcess({
      file: options.path,
      args: options.args,
      cwd: options.cwd,
      fds: [
        options.stdio?.stdin ?? null,
        options.stdio?.stdout ?? null,
        options.stdio?.stderr ?? stderr?.writeFd ?? null,
        sync.writeFd,
      ],
      env: {
        PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
        _OCI_SYNCPIPE: String(SYNC_FD),
      },
    });
  } catch (error) {
    throw isKind(error, 'NotFound')
      ? new GantryError('FailedPrecondition', `${options.path}: no such program, or no folder ${options.cwd}`)
      : new GantryError('Internal', `${options.path}: cannot be started: ${messageOf(error)}`, { cause: error });
  }
}

/** Ours of a monitor's descriptors; those of a monitor that is not started are closed again. */
class ConmonPipes implements Disposable {
  readonly sync: OutputPipe;
  readonly stderr: OutputPipe | undefined;
  readonly #undo = new DisposableStack();

  constructor(withStderr: boolean) {
    try {
      this.sync = this.#output();
      if (withStderr) this.stderr = this.#output();
    } catch (error) {
      this.#undo.dispose();
      throw error;
    }
  }

  /** The monitor has its ends: whoever takes ours closes them. */
  handedOver(): this {
    this.sync.closeWriter();
    this.stderr?.closeWriter();
    this.#undo.move();
    return this;
  }

  #output(): OutputPipe {
    const pipe = outputPipe();
    this.#undo.defer(() => {
      pipe.closeWriter();
      pipe.reader.destroy();
    });
    return pipe;
  }

  [Symbol.dispose](): void {
    this.#undo.dispose();
  }
}

function failureWords({ code, signal }: ChildExit, stderr: string): string | undefined {
  if (code === 0) return undefined;
  const how = signal === null ? `ended with code ${String(code)}` : `was ended by ${signal}`;
  const said = stderr.replaceAll(/^\[conmon:\w\]: */gm, '').trim();
  return said === '' ? how : `${how}: ${said.replaceAll('\n', '; ')}`;
}

/** Lines of JSON out of a stream that may cut them anywhere. */
class MessageReader {
  #rest = '';
  #ended = false;
  readonly #ready: SyncMessage[] = [];
  readonly #waiting: ((message: SyncMessage | undefined) => void)[] = [];

  constructor(stream: Readable) {
    stream.setEncoding('utf8');
    stream.on('data', (text: string) => {
      this.#rest += text;
      for (let end = this.#rest.indexOf('\n'); end >= 0; end = this.#rest.indexOf('\n')) {
        this.#line(this.#rest.slice(0, end));
        this.#rest = this.#rest.slice(end + 1);
      }
    });
    const end = (): void => {
      this.#line(this.#rest);
      this.#rest = '';
      this.#ended = true;
      for (const resolve of this.#waiting.splice(0)) resolve(undefined);
    };
    stream.once('end', end);
    stream.once('close', end);
    stream.on('error', end);
  }

  next(): Promise<SyncMessage | undefined> {
    const message = this.#ready.shift();
    if (message !== undefined || this.#ended) return Promise.resolve(message);
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  #line(line: string): void {
    const message = parseSyncMessage(line);
    if (message === undefined) return;
    const waiting = this.#waiting.shift();
    if (waiting === undefined) this.#ready.push(message);
    else waiting(message);
  }
}

export function parseSyncMessage(line: string): SyncMessage | undefined {
  try {
    const value = JSON.parse(line) as { data?: unknown; message?: unknown };
    if (typeof value.data !== 'number') return undefined;
    return typeof value.message === 'string' ? { data: value.data, message: value.message } : { data: value.data };
  } catch {
    return undefined;
  }
}
