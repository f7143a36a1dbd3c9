import { CODE, ConnectionError, HEAD_BYTES, MOST_PAYLOAD_BYTES, PREFACE, type Frame } from './wire.ts';

const ID_MASK = 0x7fff_ffff;

/** Cuts what a client sends into frames, whatever pieces it comes in. Keeps at most one frame that is not whole yet. */
export class FrameReader {
  #held: Buffer = Buffer.alloc(0);
  #greeted = false;

  /**
   * The frames that `chunk` completes. To be read to the end before the next chunk.
   * @throws ConnectionError for what is not HTTP/2, and for a frame that is larger than anybody may send us
   */
  *read(chunk: Buffer): Generator<Frame, void> {
    const bytes = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    let at = 0;
    if (!this.#greeted) {
      const begin = bytes.subarray(0, PREFACE.length);
      if (!begin.equals(PREFACE.subarray(0, begin.length))) {
        throw new ConnectionError(CODE.protocolError, 'the first bytes are not those of HTTP/2');
      }
      if (begin.length < PREFACE.length) {
        this.#held = Buffer.from(begin);
        return;
      }
      this.#greeted = true;
      at = PREFACE.length;
    }
    while (bytes.length - at >= HEAD_BYTES) {
      const length = bytes.readUIntBE(at, 3);
      if (length > MOST_PAYLOAD_BYTES) {
        throw new ConnectionError(CODE.frameSizeError, `a frame of ${String(length)} bytes`);
      }
      const end = at + HEAD_BYTES + length;
      if (end > bytes.length) break;
      const type = bytes.readUInt8(at + 3);
      const flags = bytes.readUInt8(at + 4);
      const streamId = bytes.readUInt32BE(at + 5) & ID_MASK;
      yield { type, flags, streamId, payload: bytes.subarray(at + HEAD_BYTES, end) };
      at = end;
    }
    this.#held = Buffer.from(bytes.subarray(at));
  }
}
