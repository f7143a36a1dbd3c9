import { constants, createDeflate } from 'node:zlib';
import { HEADER_DICTIONARY } from './header-dictionary.ts';

/** Compresses header blocks as other clients do: all of a connection's are one zlib stream. */
export class FakeHeaderDeflater {
  readonly #deflate = createDeflate({ dictionary: HEADER_DICTIONARY });
  #blocks: Promise<unknown> = Promise.resolve();

  /** The headers as the next block of the connection's compressed stream. */
  async block(headers: Readonly<Record<string, string>>): Promise<Buffer> {
    const parts: Buffer[] = [];
    const number = (value: number): void => {
      const bytes = Buffer.alloc(4);
      bytes.writeUInt32BE(value);
      parts.push(bytes);
    };
    const entries = Object.entries(headers);
    number(entries.length);
    for (const text of entries.flat()) {
      number(Buffer.byteLength(text));
      parts.push(Buffer.from(text));
    }
    return await this.compress(Buffer.concat(parts));
  }

  async compress(bytes: Buffer): Promise<Buffer> {
    const done = this.#blocks.then(
      () =>
        new Promise<Buffer>((resolve) => {
          const out: Buffer[] = [];
          const onData = (part: Buffer): void => void out.push(part);
          this.#deflate.on('data', onData);
          this.#deflate.write(bytes);
          this.#deflate.flush(constants.Z_SYNC_FLUSH, () => {
            setImmediate(() => {
              this.#deflate.off('data', onData);
              resolve(Buffer.concat(out));
            });
          });
        }),
    );
    this.#blocks = done;
    return await done;
  }
}
