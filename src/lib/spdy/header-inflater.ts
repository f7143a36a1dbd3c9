import { constants, createInflate } from 'node:zlib';
import { invalidArgument, messageOf } from '../errors.ts';
import { HEADER_DICTIONARY } from './header-dictionary.ts';

/** What the headers of one frame may become. A few hundred bytes are usual. */
const MAX_BLOCK_BYTES = 16 * 1024;

/**
 * Decompresses the header blocks of one connection. All of them are one zlib stream, so each has to go through here, in order, those
 * of frames that are otherwise ignored as well.
 */
export class HeaderInflater {
  readonly #zlib = createInflate({
    dictionary: HEADER_DICTIONARY,
    flush: constants.Z_SYNC_FLUSH,
    finishFlush: constants.Z_SYNC_FLUSH,
    chunkSize: MAX_BLOCK_BYTES,
  });
  #parts: Buffer[] = [];
  #bytes = 0;
  #failed: ((error: Error) => void) | undefined;

  constructor() {
    this.#zlib.on('data', (part: Buffer) => {
      this.#bytes += part.length;
      this.#parts.push(part);
      if (this.#bytes <= MAX_BLOCK_BYTES) return;
      // First, as a write that is cut off is called done.
      this.#failed?.(new Error(`they are more than ${MAX_BLOCK_BYTES} bytes`));
      this.#zlib.destroy();
    });
    this.#zlib.on('error', (error) => this.#failed?.(error));
    this.#zlib.on('close', () => this.#failed?.(new Error('closed')));
  }

  /**
   * One block at a time.
   * @throws InvalidArgument when it cannot be decompressed or becomes too large; nothing can be read after that
   */
  async inflate(block: Buffer): Promise<Buffer> {
    this.#parts = [];
    this.#bytes = 0;
    try {
      await new Promise<void>((resolve, reject) => {
        this.#failed = reject;
        if (this.#zlib.destroyed) reject(new Error('closed'));
        else this.#zlib.write(block, () => resolve());
      });
      // The write is done, but its last part may not have been handed on yet.
      while (this.#zlib.read() !== null);
      if (this.#zlib.destroyed) throw new Error(`they are more than ${MAX_BLOCK_BYTES} bytes`);
    } catch (error) {
      throw invalidArgument(`SPDY: headers cannot be decompressed: ${messageOf(error)}`, { cause: error });
    } finally {
      this.#failed = undefined;
    }
    return Buffer.concat(this.#parts);
  }

  close(): void {
    this.#zlib.destroy();
  }
}
