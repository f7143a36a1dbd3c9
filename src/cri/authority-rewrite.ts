import { slashesToDashes } from './hpack-huffman.ts';

/**
 * gRPC clients in Go up to 2023 send the path of the unix socket as `:authority` (`/run/gantry/gantry.sock`). Node's HTTP/2
 * resets such a stream before anybody can see it, because RFC 3986 has no `/` in an authority. So the bytes are changed on
 * their way in: each `/` of the authority becomes a `-`. Both are one byte, and six bits in HPACK's Huffman code, so every
 * length stays true, and what the peer puts into its dynamic table has the size that it thinks it has.
 *
 * An authority whose *name* comes from the dynamic table, or that stands in a CONTINUATION frame, is not found: no known
 * client sends one.
 */

const PREFACE_BYTES = 24;
const FRAME_HEADER_BYTES = 9;
const HEADERS = 1;
const PADDED = 0x08;
const PRIORITY = 0x20;
const PRIORITY_BYTES = 5;

/** Node never allows frames larger than this without having been asked to; a larger one is passed on to be refused there. */
const MAX_HELD_BYTES = 16 * 1024 + FRAME_HEADER_BYTES;

const STATIC_INDEX_OF_AUTHORITY = 1;

/** Rewrites one direction of one connection. Bytes come in as they were read, however they were split. */
export class AuthorityRewriter {
  /** Bytes that need no look: the preface, then what is left of a frame that carries no headers. */
  #pass = PREFACE_BYTES;
  /** A frame header, or a HEADERS frame, that has not come in whole yet. */
  #held: Buffer | undefined;

  /** What can be handed on now. May change `chunk` in place and return parts of it. */
  push(chunk: Buffer): Buffer {
    const bytes = this.#held === undefined ? chunk : Buffer.concat([this.#held, chunk]);
    this.#held = undefined;
    let at = 0;
    while (at < bytes.length) {
      if (this.#pass > 0) {
        const step = Math.min(this.#pass, bytes.length - at);
        this.#pass -= step;
        at += step;
        continue;
      }
      const rest = bytes.length - at;
      if (rest < FRAME_HEADER_BYTES) break;
      const frameBytes = FRAME_HEADER_BYTES + bytes.readUIntBE(at, 3);
      if (bytes[at + 3] === HEADERS && frameBytes <= MAX_HELD_BYTES) {
        if (rest < frameBytes) break;
        rewriteHeaders(bytes.subarray(at, at + frameBytes));
      }
      this.#pass = frameBytes;
    }
    if (at < bytes.length) this.#held = bytes.subarray(at);
    return bytes.subarray(0, at);
  }

  /** What is still held when the peer has ended: half a frame. */
  flush(): Buffer {
    const rest = this.#held ?? Buffer.alloc(0);
    this.#held = undefined;
    return rest;
  }
}

function rewriteHeaders(frame: Buffer): void {
  const flags = frame[4] ?? 0;
  let begin = FRAME_HEADER_BYTES;
  let end = frame.length;
  if (flags & PADDED) {
    end -= frame[begin] ?? 0;
    begin += 1;
  }
  if (flags & PRIORITY) begin += PRIORITY_BYTES;
  if (begin < end) rewriteFields(frame.subarray(begin, end));
}

/** Walks the fields of a header block. Stops where it is cut or makes no sense: saying so is the HTTP/2 library's job. */
function rewriteFields(block: Buffer): void {
  const reader = new FieldReader(block);
  while (!reader.done) {
    const first = reader.peek();
    if (first & 0x80) {
      reader.integer(7); // an indexed field: name and value from a table
    } else if ((first & 0xe0) === 0x20) {
      reader.integer(5); // the table's new size
    } else {
      const nameIndex = reader.integer(first & 0x40 ? 6 : 4);
      if (nameIndex === 0) reader.string();
      const value = reader.string();
      if (nameIndex === STATIC_INDEX_OF_AUTHORITY && value !== undefined) rewriteValue(value);
    }
  }
}

interface CodedString {
  readonly bytes: Buffer;
  readonly huffman: boolean;
}

function rewriteValue(value: CodedString): void {
  if (value.huffman) {
    slashesToDashes(value.bytes);
    return;
  }
  for (let at = 0; at < value.bytes.length; at++) {
    if (value.bytes[at] === 0x2f) value.bytes[at] = 0x2d;
  }
}

/** HPACK's integers and strings (RFC 7541, section 5). After anything unreadable it is `done`. */
class FieldReader {
  readonly #block: Buffer;
  #at = 0;

  constructor(block: Buffer) {
    this.#block = block;
  }

  get done(): boolean {
    return this.#at >= this.#block.length;
  }

  peek(): number {
    return this.#block[this.#at] ?? 0;
  }

  /** Undefined when cut or too large to be a length or an index of anything here. */
  integer(prefixBits: number): number | undefined {
    const mask = (1 << prefixBits) - 1;
    let value = this.peek() & mask;
    this.#at++;
    if (value < mask) return value;
    for (let shift = 0; shift <= 21; shift += 7) {
      const byte = this.#block[this.#at++];
      if (byte === undefined) return undefined;
      value += (byte & 0x7f) << shift;
      if ((byte & 0x80) === 0) return value;
    }
    this.#at = this.#block.length;
    return undefined;
  }

  string(): CodedString | undefined {
    if (this.done) return undefined;
    const huffman = (this.peek() & 0x80) !== 0;
    const length = this.integer(7);
    const begin = this.#at;
    if (length === undefined || begin + length > this.#block.length) {
      this.#at = this.#block.length;
      return undefined;
    }
    this.#at += length;
    return { bytes: this.#block.subarray(begin, this.#at), huffman };
  }
}
