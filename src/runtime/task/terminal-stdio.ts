import { raceSignal } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { internal } from '../../lib/errors.ts';
import { ConsoleSocket, type Terminal } from '../../linux/terminal.ts';
import type { TerminalSize } from '../streaming/streams.ts';
import type { ExecPlace } from './exec-place.ts';
import type { ExecFds, ExecStdio } from './exec-stdio.ts';
import { OutputPump } from './output-pump.ts';
import { pumpInput, type RemoteStdio } from './remote-stdio.ts';

/**
 * A client's streams as one terminal, whose master side is ours from the moment in which the OCI runtime has made it: so no monitor stands
 * between, a size takes effect at once, and when this process dies the kernel hangs up for us.
 */
export class TerminalStdio implements ExecStdio, AsyncDisposable {
  readonly terminal = true;
  readonly #remote: RemoteStdio;
  readonly #clock: Clock;
  #size: TerminalSize | undefined;
  #socket: ConsoleSocket | undefined;
  #master: Terminal | undefined;
  #pump: OutputPump | undefined;

  constructor(remote: RemoteStdio, clock: Clock) {
    this.#remote = remote;
    this.#clock = clock;
    void this.#followSizes();
  }

  get size(): TerminalSize | undefined {
    return this.#size;
  }

  open({ consoleSocket }: ExecPlace): Promise<ExecFds> {
    this.#socket = new ConsoleSocket(consoleSocket);
    return Promise.resolve({
      stdin: null,
      stdout: null,
      stderr: null,
      runtimeOptions: ['--console-socket', consoleSocket],
      closeOurs: () => undefined,
    });
  }

  /** Throws Internal when the runtime has not handed over a terminal. */
  started(): void {
    const master = this.#socket?.receive(this.#clock);
    if (master === undefined) throw internal('exec: the OCI runtime has handed over no terminal');
    this.#master = master;
    master.showLineEnds();
    if (this.#size !== undefined) master.resize(this.#size);
    const { stdin, stdout } = this.#remote;
    if (stdin !== undefined) {
      void pumpInput(
        stdin,
        (chunk) => master.write(chunk),
        // A terminal has no half close: what was typed stands, and the command goes on.
        () => undefined,
      );
    }
    const reader = master.stream;
    const source = { reader, unread: () => master.unread() };
    if (stdout === undefined) reader.resume();
    else this.#pump = new OutputPump(source, stdout);
  }

  words(): Promise<string> {
    return Promise.resolve('');
  }

  async drained(op: { readonly signal: AbortSignal }): Promise<void> {
    if (this.#pump !== undefined) await raceSignal(this.#pump.drained(this.#clock), op.signal);
  }

  hangUp(): boolean {
    const told = this.#master !== undefined;
    this.#master?.close();
    return told;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#master?.close();
    await this.#socket?.[Symbol.asyncDispose]();
  }

  async #followSizes(): Promise<void> {
    try {
      for await (const size of this.#remote.resizes) {
        this.#size = size;
        this.#master?.resize(size);
      }
    } catch {
      // The session is over.
    }
  }
}
