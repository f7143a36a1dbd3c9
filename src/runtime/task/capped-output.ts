import type { Readable } from 'node:stream';
import { outputPipe, type OutputPipe } from '../../linux/pipe.ts';

/** The first bytes of a stream. What comes after the cap is read, so that the writer does not block, and thrown away. */
export class CappedOutput implements Disposable {
  readonly #capBytes: number;
  readonly #chunks: Uint8Array[] = [];
  readonly #end = Promise.withResolvers<undefined>();
  #reader: Readable | undefined;
  #size = 0;
  #truncated = false;

  constructor(capBytes: number) {
    this.#capBytes = capBytes;
  }

  /** Makes the pipe that is to be written to, and reads it from now on. */
  pipe(): OutputPipe {
    const pipe = outputPipe();
    this.#reader = pipe.reader;
    pipe.reader.on('data', (chunk: Buffer) => this.add(chunk));
    for (const event of ['end', 'close', 'error']) pipe.reader.once(event, () => this.#end.resolve(undefined));
    return pipe;
  }

  add(chunk: Uint8Array): void {
    const room = this.#capBytes - this.#size;
    if (chunk.length > room) this.#truncated = true;
    if (room <= 0) return;
    const kept = chunk.subarray(0, room);
    this.#chunks.push(kept);
    this.#size += kept.length;
  }

  /** Resolves when nobody can write any more. */
  get ended(): Promise<unknown> {
    return this.#end.promise;
  }

  get truncated(): boolean {
    return this.#truncated;
  }

  bytes(): Uint8Array {
    return Buffer.concat(this.#chunks);
  }

  /** Reads no more: whoever still writes gets EPIPE. */
  [Symbol.dispose](): void {
    this.#reader?.destroy();
  }
}
