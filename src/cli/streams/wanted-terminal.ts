import { line, type CliContext } from '../context.ts';

export interface TerminalWish {
  readonly stdin: boolean;
  readonly tty: boolean;
  /** Only what the command itself says is printed. */
  readonly quiet: boolean;
}

/** Whether the command is to have our terminal: there is none to give where stdin is something else, which is said; kubectl's words. */
export async function wantedTerminal(context: CliContext, { stdin, tty, quiet }: TerminalWish): Promise<boolean> {
  if (!stdin || !tty) return false;
  if (context.terminal().stdinIsTerminal) return true;
  if (!quiet) await line(context.err, 'Unable to use a TTY - input is not a terminal or the right kind of file');
  return false;
}
