import type { Readable, Writable } from 'node:stream';
import type { TerminalSize } from '../../kube/streams/pod-streams.ts';

/** Where this program was started from, for the commands that hand it over to a container. */
export interface Terminal {
  /** Opened when it is first asked for: what nobody reads stays for whoever comes after us. */
  readonly stdin: Readable;
  readonly stdout: Writable;
  readonly stderr: Writable;
  readonly stdinIsTerminal: boolean;
  /** Undefined where stdout is no terminal. */
  size(): TerminalSize | undefined;
  onResize(listener: () => void): Disposable;
  /** Every key goes to whoever reads stdin, unchanged and unseen, until this is disposed of or the process ends, whichever way. */
  rawMode(): Disposable;
}
