import type { Op } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import type { CriConnection } from '../cri/client.ts';
import type { ApiConnection } from '../kube/gantry-extensions.ts';
import type { Terminal } from './terminal/terminal.ts';

/** Where a command's words go. */
export interface Output {
  /** Resolves when the reader keeps up: `await` it in loops, so that a slow pager is not buried. */
  write(text: string | Uint8Array): Promise<void>;
  /** Columns of the terminal; undefined when it is a file or a pipe. */
  readonly columns: number | undefined;
}

/** All that a command may touch: tests hand in buffers and an API in the same process. */
export interface CliContext {
  /** Fires on Ctrl-C. */
  readonly op: Op;
  readonly clock: Clock;
  readonly out: Output;
  readonly err: Output;
  readStdin(): Promise<string>;
  /** Stdin, stdout and stderr themselves, for what goes on in a container. */
  terminal(): Terminal;
  readonly cwd: string;
  /** Connects on first use; the same connection afterwards. */
  api(): Promise<ApiConnection>;
  /** The API's address was given, by flag or environment: then nobody else is asked in its place. */
  readonly apiWasNamed: boolean;
  /** The runtime alone, at its usual place unless named; connects on first use. */
  cri(endpoint?: string): Promise<CriConnection>;
}

/** What a command ends with: 0, or kubectl's code for the failure. Errors that are thrown become 1. */
export type ExitCode = number;

export async function line(output: Output, text = ''): Promise<void> {
  await output.write(`${text}\n`);
}
