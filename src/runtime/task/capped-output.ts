import type { Readable } from 'node:stream';

/** The first bytes of a stream. What comes after the cap is read, so that the writer does not block, and thrown away. */
export class CappedOutput {
  readonly #capBytes: number;
  readonly #chunks: Uint8Array[] = [];
  readonly #end = Promise.withResolvers<undefined>();
  #size = 0;
  #truncated = false;

  constructor(capBytes: number) {
    this.#capBytes = capBytes;
  }

  read(stream: Readable | null): void {
    if (stream === null) {
      this.#end.resolve(undefined);
      return;
    }
    stream.on('data', (chunk: Buffer) => this.add(chunk));
    for (const event of ['end', 'close', 'error']) stream.once(event, () => this.#end.resolve(undefined));
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
}
