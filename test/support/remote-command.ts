import { PassThrough, Writable, type Readable } from 'node:stream';
import type { TerminalSize } from '../../src/runtime/streaming/streams.ts';

export interface RemoteOptions {
  readonly stdin?: boolean;
  readonly stdout?: boolean;
  readonly stderr?: boolean;
  /** Its output is not taken until told so. */
  readonly stalled?: boolean;
}

/** The far end of an exec or attach, in memory: what a client types, reads and how large its window is. */
export class TestRemote {
  readonly stdin: PassThrough | undefined;
  readonly stdout: Writable | undefined;
  readonly stderr: Writable | undefined;
  readonly #sizes: TerminalSize[] = [];
  #nextSize = Promise.withResolvers<undefined>();
  readonly #read: Record<'stdout' | 'stderr', Buffer[]> = { stdout: [], stderr: [] };
  readonly #held: (() => void)[] = [];
  readonly #stopped = Promise.withResolvers<undefined>();
  #over = false;
  #stalled: boolean;
  /** How much has come, kept or not. */
  receivedBytes = 0;
  /** Only counted. */
  keep = true;

  constructor({ stdin = false, stdout = true, stderr = true, stalled = false }: RemoteOptions = {}) {
    this.stdin = stdin ? new PassThrough() : undefined;
    this.#stalled = stalled;
    this.stdout = stdout ? this.#sink('stdout') : undefined;
    this.stderr = stderr ? this.#sink('stderr') : undefined;
  }

  get resizes(): AsyncIterable<TerminalSize> {
    return this.#allSizes();
  }

  get out(): string {
    return Buffer.concat(this.#read.stdout).toString('utf8');
  }

  get err(): string {
    return Buffer.concat(this.#read.stderr).toString('utf8');
  }

  type(text: string | Uint8Array): void {
    this.stdin?.write(text);
  }

  closeStdin(): void {
    this.stdin?.end();
  }

  resize(width: number, height: number): void {
    this.#sizes.push({ width, height });
    this.#nextSize.resolve(undefined);
  }

  /** It reads again. */
  takeOn(): void {
    this.#stalled = false;
    for (const taken of this.#held.splice(0)) taken();
  }

  /** As the wire does when the client is gone or the session over. */
  end(): void {
    this.#over = true;
    this.#nextSize.resolve(undefined);
    this.#stopped.resolve(undefined);
    const streams: (Readable | Writable | undefined)[] = [this.stdin, this.stdout, this.stderr];
    for (const stream of streams) {
      stream?.on('error', () => undefined);
      stream?.destroy();
    }
    this.#held.splice(0);
  }

  #sink(name: 'stdout' | 'stderr'): Writable {
    return new Writable({
      highWaterMark: 65_536,
      write: (chunk: Buffer, _encoding, taken) => {
        this.receivedBytes += chunk.length;
        if (this.keep) this.#read[name].push(chunk);
        if (this.#stalled) this.#held.push(taken);
        else setImmediate(taken);
      },
    });
  }

  async *#allSizes(): AsyncGenerator<TerminalSize> {
    while (!this.#over) {
      const size = this.#sizes.pop();
      this.#sizes.splice(0);
      if (size !== undefined) {
        yield size;
        continue;
      }
      this.#nextSize = Promise.withResolvers<undefined>();
      await this.#nextSize.promise;
    }
  }
}
