import type { Op } from '../../lib/abort.ts';
import type { ExecPlace } from './exec-place.ts';

/** A descriptor that the command inherits; null is /dev/null. */
export type StdioFd = number | null;

/** What the streams of an executed command are connected to, from before it is started until after it has ended. */
export interface ExecStdio {
  readonly terminal: boolean;
  /** Of the terminal, where it is known already. In characters. */
  readonly size?: { readonly width: number; readonly height: number } | undefined;
  /** Made now, and inherited by the monitor and by the command. */
  open(place: ExecPlace): Promise<ExecFds>;
  /** The command runs. */
  started(): void;
  /** What was written to stderr instead, when the command could not be started: the OCI runtime's words. */
  words(): Promise<string>;
  /** Resolves when all that was written before the command ended has been handed on. */
  drained(op: Op): Promise<void>;
  /** Whoever the streams lead to is gone. True: the command was told so, and may end by itself. */
  hangUp(): boolean;
}

export interface ExecFds {
  readonly stdin: StdioFd;
  readonly stdout: StdioFd;
  readonly stderr: StdioFd;
  /** More arguments for the OCI runtime's exec. */
  readonly runtimeOptions: readonly string[];
  /** Ours, when the monitor has its own. */
  closeOurs(): void;
}
