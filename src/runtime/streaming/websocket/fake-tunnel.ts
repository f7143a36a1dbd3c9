import { Duplex } from 'node:stream';
import type { Socket } from 'node:net';

const MASK = Buffer.from('a1b2c3d4', 'hex');

/**
 * A client's WebSocket that has been accepted, as bytes in both directions: what is written goes out as one binary message each. The
 * library's client refuses the name of the tunnelled SPDY before it has asked.
 */
export class FakeTunnel extends Duplex {
  readonly #socket: Socket;
  #kept = Buffer.alloc(0);

  constructor(socket: Socket) {
    super();
    this.#socket = socket;
    socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    socket.on('close', () => this.destroy());
    socket.on('error', () => undefined);
  }

  override _read(): void {
    this.#socket.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    const head = Buffer.alloc(14);
    head[0] = 0x82;
    head[1] = 0xff;
    head.writeBigUInt64BE(BigInt(chunk.length), 2);
    MASK.copy(head, 10);
    const masked = Buffer.from(chunk.map((byte, index) => byte ^ MASK.readUInt8(index % 4)));
    this.#socket.write(Buffer.concat([head, masked]), () => done());
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#socket.destroy();
    done(error);
  }

  #receive(chunk: Buffer): void {
    this.#kept = Buffer.concat([this.#kept, chunk]);
    for (;;) {
      if (this.#kept.length < 2) return;
      const short = this.#kept.readUInt8(1) & 0x7f;
      const headBytes = short < 126 ? 2 : short === 126 ? 4 : 10;
      if (this.#kept.length < headBytes) return;
      const bytes =
        short < 126 ? short : short === 126 ? this.#kept.readUInt16BE(2) : Number(this.#kept.readBigUInt64BE(2));
      if (this.#kept.length < headBytes + bytes) return;
      const isData = (this.#kept.readUInt8(0) & 0x0f) === 2;
      const payload = this.#kept.subarray(headBytes, headBytes + bytes);
      this.#kept = this.#kept.subarray(headBytes + bytes);
      if (isData) this.push(payload);
    }
  }
}
