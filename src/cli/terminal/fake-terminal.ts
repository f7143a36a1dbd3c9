import { PassThrough } from 'node:stream';
import type { TerminalSize } from '../../kube/streams/pod-streams.ts';
import type { Terminal } from './terminal.ts';

/** A terminal, or pipes, of which a test is the other end. */
export class FakeTerminal implements Terminal {
  readonly stdin = new PassThrough();
  readonly stdout = new PassThrough();
  readonly stderr = new PassThrough();
  readonly stdinIsTerminal: boolean;
  /** What has happened to its mode, in order. */
  readonly modes: ('raw' | 'restored')[] = [];
  readonly #listeners = new Set<() => void>();
  #size: TerminalSize | undefined;

  constructor(size?: TerminalSize) {
    this.#size = size;
    this.stdinIsTerminal = size !== undefined;
  }

  size(): TerminalSize | undefined {
    return this.#size;
  }

  onResize(listener: () => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  get listeners(): number {
    return this.#listeners.size;
  }

  resizeTo(size: TerminalSize): void {
    this.#size = size;
    for (const listener of this.#listeners) listener();
  }

  rawMode(): Disposable {
    this.modes.push('raw');
    return { [Symbol.dispose]: () => void this.modes.push('restored') };
  }
}
