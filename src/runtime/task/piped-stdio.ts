import { raceSignal } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { inputPipe, outputPipe, type InputPipe, type OutputPipe } from '../../linux/pipe.ts';
import type { ExecFds, ExecStdio } from './exec-stdio.ts';
import { endsWithin } from './ends-within.ts';
import { OutputPump, written } from './output-pump.ts';
import { pumpInput, type RemoteStdio } from './remote-stdio.ts';

const MOST_WORDS_BYTES = 8192;
/** They are there when the monitor says that nothing was started. */
const WORDS_MS = 500;

/** A client's streams, each through a pipe of its own; what the client did not ask for is /dev/null. */
export class PipedStdio implements ExecStdio, Disposable {
  readonly terminal = false;
  readonly #remote: RemoteStdio;
  readonly #clock: Clock;
  #stdin: InputPipe | undefined;
  #stdout: OutputPipe | undefined;
  #stderr: OutputPipe | undefined;
  #pumps: OutputPump[] = [];

  constructor(remote: RemoteStdio, clock: Clock) {
    this.#remote = remote;
    this.#clock = clock;
  }

  open(): Promise<ExecFds> {
    const { stdin, stdout, stderr } = this.#remote;
    try {
      if (stdin !== undefined) this.#stdin = inputPipe();
      if (stdout !== undefined) this.#stdout = outputPipe();
      if (stderr !== undefined) this.#stderr = outputPipe();
    } catch (error) {
      this.#closeOurs();
      throw error;
    }
    return Promise.resolve({
      stdin: this.#stdin?.readFd ?? null,
      stdout: this.#stdout?.writeFd ?? null,
      stderr: this.#stderr?.writeFd ?? null,
      runtimeOptions: [],
      closeOurs: () => {
        this.#closeOurs();
      },
    });
  }

  /** Not before: what the OCI runtime says of a command that cannot be started is not the command's. */
  started(): void {
    const { stdin, stdout, stderr } = this.#remote;
    if (stdin !== undefined && this.#stdin !== undefined) {
      const { writer } = this.#stdin;
      void pumpInput(
        stdin,
        (chunk) => written(writer, chunk),
        () => writer.end(),
      );
    }
    this.#pumps = [];
    if (stdout !== undefined && this.#stdout !== undefined) this.#pumps.push(new OutputPump(this.#stdout, stdout));
    if (stderr !== undefined && this.#stderr !== undefined) this.#pumps.push(new OutputPump(this.#stderr, stderr));
  }

  async words(): Promise<string> {
    let words = '';
    const read = async (): Promise<void> => {
      for await (const chunk of (this.#stderr?.reader ?? []) as AsyncIterable<Buffer>) {
        words += chunk.toString('utf8');
        if (words.length > MOST_WORDS_BYTES) break;
      }
    };
    await endsWithin(this.#clock, read(), WORDS_MS);
    return words;
  }

  async drained(op: { readonly signal: AbortSignal }): Promise<void> {
    await raceSignal(Promise.all(this.#pumps.map((pump) => pump.drained(this.#clock))), op.signal);
  }

  hangUp(): boolean {
    return false;
  }

  /** Whoever still has the other ends finds out when it uses them. */
  [Symbol.dispose](): void {
    this.#stdin?.writer.destroy();
    for (const pipe of [this.#stdout, this.#stderr]) pipe?.reader.destroy();
  }

  #closeOurs(): void {
    this.#stdin?.closeReader();
    this.#stdout?.closeWriter();
    this.#stderr?.closeWriter();
  }
}
