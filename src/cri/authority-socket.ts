import { Duplex } from 'node:stream';
import type { Socket } from 'node:net';
import { AuthorityRewriter } from './authority-rewrite.ts';

/** A connection whose incoming bytes pass through an {@link AuthorityRewriter}; what goes out is untouched. */
export class AuthoritySocket extends Duplex {
  readonly #socket: Socket;
  readonly #rewriter = new AuthorityRewriter();

  constructor(socket: Socket) {
    super();
    this.#socket = socket;
    socket.on('data', (chunk: Buffer) => {
      const bytes = this.#rewriter.push(chunk);
      if (bytes.length > 0 && !this.push(bytes)) socket.pause();
    });
    socket.on('end', () => {
      const rest = this.#rewriter.flush();
      if (rest.length > 0) this.push(rest);
      this.push(null);
    });
    // A peer that resets the connection is no fault of ours: the end of the stream is all that matters.
    socket.on('error', () => this.destroy());
    socket.on('close', () => this.destroy());
  }

  override _read(): void {
    this.#socket.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#socket.write(chunk, done);
  }

  override _writev(chunks: { chunk: Buffer }[], done: (error?: Error | null) => void): void {
    this.#socket.cork();
    for (const [index, { chunk }] of chunks.entries()) {
      if (index === chunks.length - 1) this.#socket.write(chunk, done);
      else this.#socket.write(chunk);
    }
    this.#socket.uncork();
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#socket.end(done);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#socket.destroy();
    done(error);
  }
}
