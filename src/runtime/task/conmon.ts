import { spawn, type ChildProcess } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import type { Op } from '../../lib/abort.ts';
import { raceSignal } from '../../lib/abort.ts';
import { GantryError, errnoOf, messageOf } from '../../lib/errors.ts';

/** One line of conmon's sync pipe (API version 1): a pid or an exit code, or -1 with a message. */
export interface SyncMessage {
  readonly data: number;
  readonly message?: string;
}

export interface ConmonProcess {
  readonly pid: number;
  readonly child: ChildProcess;
  /** The next message; undefined when conmon closed the pipe without one. */
  nextMessage(op: Op): Promise<SyncMessage | undefined>;
  /** Opens the start gate: until then conmon has forked nothing. */
  release(): void;
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
  /** Descriptors for conmon's own stdout and stderr: an exec'd process inherits them when the log is `passthrough`. */
  readonly output?: { readonly stdout: number; readonly stderr: number };
}

const SYNC_FD = 3;
const START_FD = 4;
const STDERR_KEPT = 8192;

/** Starts conmon with its start gate still shut. */
export async function spawnConmon(options: ConmonOptions): Promise<ConmonProcess> {
  const child = spawn(options.path, options.args, {
    cwd: options.cwd,
    stdio: ['ignore', options.output?.stdout ?? 'ignore', options.output?.stderr ?? 'pipe', 'pipe', 'pipe'],
    env: {
      PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
      _OCI_SYNCPIPE: String(SYNC_FD),
      _OCI_STARTPIPE: String(START_FD),
    },
    // A group of its own: Ctrl-C at a terminal must not reach a monitor.
    detached: true,
  });
  const exited = new Promise<void>((resolve) => {
    child.once('exit', () => resolve());
    child.once('error', () => resolve());
  });
  await new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve);
    child.once('error', (error) => {
      reject(
        errnoOf(error) === 'ENOENT'
          ? new GantryError('FailedPrecondition', `${options.path}: no such program, or no folder ${options.cwd}`)
          : new GantryError('Internal', `${options.path}: cannot be started: ${messageOf(error)}`, { cause: error }),
      );
    });
  });
  const sync = child.stdio[SYNC_FD] as Readable;
  const start = child.stdio[START_FD] as Writable;
  // conmon may end before it reads.
  start.on('error', () => undefined);
  const messages = new MessageReader(sync);
  let stderr = '';
  const allSaid = new Promise<void>((resolve) => {
    if (child.stderr === null) resolve();
    else child.stderr.once('close', () => resolve());
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    if (stderr.length < STDERR_KEPT) stderr += text;
  });
  return {
    pid: child.pid ?? 0,
    child,
    exited,
    nextMessage: (op) => raceSignal(messages.next(), op.signal),
    release: () => start.end('\0'),
    stderr: () => stderr.trim(),
    failure: async (op) => {
      await raceSignal(Promise.all([exited, allSaid]), op.signal);
      return failureWords(child, stderr);
    },
    letGo: () => {
      sync.destroy();
      start.destroy();
      child.stderr?.destroy();
      child.unref();
    },
  };
}

function failureWords({ exitCode, signalCode }: ChildProcess, stderr: string): string | undefined {
  if (exitCode === 0) return undefined;
  const how = signalCode === null ? `ended with code ${String(exitCode ?? 'unknown')}` : `was ended by ${signalCode}`;
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
