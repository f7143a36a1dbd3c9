import { spawn } from 'node:child_process';
import type { Writable } from 'node:stream';
import type { Op } from './abort.ts';
import { canceled, GantryError } from './errors.ts';

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
export function execFile(
  op: Op,
  file: string,
  args: readonly string[],
  options: ExecOptions = {},
): Promise<ExecResult> {
  return new Promise((resolve, reject) => {
    if (op.signal.aborted) {
      reject(reasonOf(op.signal));
      return;
    }
    const child = spawn(file, args, {
      stdio: [options.input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
      env: options.env ?? process.env,
      cwd: options.cwd ?? '/',
      detached: true,
    });
    const stdout = collect(child.stdout, options.maxOutputBytes);
    const stderr = collect(child.stderr, options.maxOutputBytes);
    const onAbort = (): void => {
      // A group of its own (detached): the grandchildren die too and cannot hold the pipes open.
      if (child.pid !== undefined) {
        try {
          process.kill(-child.pid, 'SIGKILL');
        } catch {
          // already gone
        }
      }
      // One that left the group keeps them open for as long as it likes.
      child.stdout?.destroy();
      child.stderr?.destroy();
      reject(reasonOf(op.signal));
    };
    op.signal.addEventListener('abort', onAbort, { once: true });
    child.on('error', (error: NodeJS.ErrnoException) => {
      op.signal.removeEventListener('abort', onAbort);
      reject(
        error.code === 'ENOENT'
          ? new GantryError('NotFound', `${file}: no such program`, { cause: error })
          : new GantryError('Internal', `${file}: cannot be started: ${error.message}`, { cause: error }),
      );
    });
    child.on('close', (code, signal) => {
      op.signal.removeEventListener('abort', onAbort);
      resolve({ code: code ?? -1, signal, stdout: stdout(), stderr: stderr() });
    });
    // Undefined, whatever its type says, when there was no descriptor left for it: then the error follows.
    const stdin = child.stdin as Writable | null | undefined;
    // A program may end without reading its input.
    stdin?.on('error', () => undefined);
    stdin?.end(options.input);
  });
}

function collect(stream: NodeJS.ReadableStream | null, maxBytes = DEFAULT_MAX_OUTPUT_BYTES): () => string {
  const chunks: Buffer[] = [];
  let size = 0;
  stream?.on('data', (chunk: Buffer) => {
    if (size >= maxBytes) return;
    chunks.push(chunk.subarray(0, maxBytes - size));
    size += chunk.length;
  });
  return () => Buffer.concat(chunks).toString('utf8');
}

function reasonOf(signal: AbortSignal): Error {
  const reason: unknown = signal.reason;
  return reason instanceof Error ? reason : canceled('canceled');
}
