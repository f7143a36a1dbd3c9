import { invalidArgument } from '../errors.ts';
import {
  FLAG_FIN,
  FLAG_UNIDIRECTIONAL,
  FRAME_TYPE,
  HEAD_BYTES,
  SETTING_INITIAL_WINDOW_SIZE,
  VERSION,
} from './frames.ts';
import type { Frame } from './frames.ts';

/** A client's headers are a few dozen bytes; nobody needs a control frame as long as this. */
const MAX_CONTROL_BYTES = 64 * 1024;
const ID_MASK = 0x7fff_ffff;

/** What the bytes that come next belong to. */
type Expected =
  | { readonly kind: 'head' }
  | { readonly kind: 'data'; readonly streamId: number; readonly fin: boolean; left: number }
  | { readonly kind: 'control'; readonly type: number; readonly flags: number; readonly bytes: number }
  | { readonly kind: 'skipped'; left: number };

/**
 * Cuts the bytes of a connection into frames, whatever pieces they come in. It keeps at most one control frame: the payload of a
 * data frame is handed on as it arrives, without copying.
 */
export class FrameReader {
  #expected: Expected = { kind: 'head' };
  /** The beginning of a head or of a control frame whose rest has not arrived. */
  #kept: Buffer[] = [];
  #keptBytes = 0;

  /**
   * The frames that `chunk` completes. To be read to the end before the next chunk.
   * @throws InvalidArgument for what is not SPDY/3.1: the connection cannot go on
   */
  *read(chunk: Buffer): Generator<Frame, void> {
    let at = 0;
    // A frame may have no body, so an expectation can be met at the end of the chunk.
    while (at < chunk.length || this.#expected.kind === 'control') {
      const expected = this.#expected;
      switch (expected.kind) {
        case 'head': {
          const taken = this.#gather(chunk, at, HEAD_BYTES);
          at += taken.bytes;
          if (taken.whole === undefined) return;
          const frame = this.#head(taken.whole);
          if (frame !== undefined) yield frame;
          break;
        }
        case 'data': {
          const payload = chunk.subarray(at, at + expected.left);
          at += payload.length;
          expected.left -= payload.length;
          const last = expected.left === 0;
          if (last) this.#expected = { kind: 'head' };
          yield { kind: 'data', streamId: expected.streamId, payload, fin: last && expected.fin };
          break;
        }
        case 'skipped': {
          const bytes = Math.min(expected.left, chunk.length - at);
          at += bytes;
          expected.left -= bytes;
          if (expected.left === 0) this.#expected = { kind: 'head' };
          break;
        }
        case 'control': {
          const taken = this.#gather(chunk, at, expected.bytes);
          at += taken.bytes;
          if (taken.whole === undefined) return;
          this.#expected = { kind: 'head' };
          yield controlFrame(expected.type, expected.flags, taken.whole);
          break;
        }
      }
    }
  }

  /** Takes what is missing to `wanted` bytes from the chunk; keeps it for the next one where it is not enough. */
  #gather(chunk: Buffer, at: number, wanted: number): { readonly bytes: number; readonly whole: Buffer | undefined } {
    const part = chunk.subarray(at, at + wanted - this.#keptBytes);
    if (this.#keptBytes + part.length < wanted) {
      if (part.length > 0) this.#kept.push(Buffer.from(part));
      this.#keptBytes += part.length;
      return { bytes: part.length, whole: undefined };
    }
    const whole = this.#kept.length === 0 ? part : Buffer.concat([...this.#kept, part]);
    this.#kept = [];
    this.#keptBytes = 0;
    return { bytes: part.length, whole };
  }

  #head(head: Buffer): Frame | undefined {
    const first = head.readUInt32BE(0);
    const flags = head.readUInt8(4);
    const bytes = head.readUIntBE(5, 3);
    if ((first & 0x8000_0000) === 0) {
      if (first === 0) throw invalidArgument('SPDY: data for stream 0, which is none');
      const fin = (flags & FLAG_FIN) !== 0;
      if (bytes === 0) return { kind: 'data', streamId: first, payload: Buffer.alloc(0), fin };
      this.#expected = { kind: 'data', streamId: first, fin, left: bytes };
      return undefined;
    }
    const version = (first >>> 16) & 0x7fff;
    const type = first & 0xffff;
    if (version !== VERSION) throw invalidArgument(`SPDY: a frame of version ${version}, ${VERSION} is spoken here`);
    if (!isKnown(type)) {
      if (bytes > 0) this.#expected = { kind: 'skipped', left: bytes };
      return undefined;
    }
    if (bytes > MAX_CONTROL_BYTES) {
      throw invalidArgument(`SPDY: a control frame of ${bytes} bytes, at most ${MAX_CONTROL_BYTES} are read`);
    }
    this.#expected = { kind: 'control', type, flags, bytes };
    return undefined;
  }
}

type FrameType = (typeof FRAME_TYPE)[keyof typeof FRAME_TYPE];

function isKnown(type: number): boolean {
  return Object.values(FRAME_TYPE).includes(type as FrameType);
}

function controlFrame(type: number, flags: number, body: Buffer): Frame {
  const fin = (flags & FLAG_FIN) !== 0;
  switch (type) {
    case FRAME_TYPE.synStream:
      mustHave(body, 10, 'SYN_STREAM');
      return {
        kind: 'synStream',
        streamId: idAt(body, 0),
        fin,
        unidirectional: (flags & FLAG_UNIDIRECTIONAL) !== 0,
        block: body.subarray(10),
      };
    case FRAME_TYPE.synReply:
      mustHave(body, 4, 'SYN_REPLY');
      return { kind: 'synReply', streamId: idAt(body, 0), fin, block: body.subarray(4) };
    case FRAME_TYPE.headers:
      mustHave(body, 4, 'HEADERS');
      return { kind: 'headers', streamId: idAt(body, 0), fin, block: body.subarray(4) };
    case FRAME_TYPE.rstStream:
      mustHave(body, 8, 'RST_STREAM');
      return { kind: 'rstStream', streamId: idAt(body, 0), status: body.readUInt32BE(4) };
    case FRAME_TYPE.settings:
      return { kind: 'settings', initialWindow: initialWindowIn(body) };
    case FRAME_TYPE.ping:
      mustHave(body, 4, 'PING');
      return { kind: 'ping', id: body.readUInt32BE(0) };
    case FRAME_TYPE.goAway:
      return { kind: 'goAway' };
    case FRAME_TYPE.windowUpdate:
      mustHave(body, 8, 'WINDOW_UPDATE');
      return { kind: 'windowUpdate', streamId: idAt(body, 0), delta: idAt(body, 4) };
    default:
      throw invalidArgument(`SPDY: frames of type ${type} have no meaning`);
  }
}

function initialWindowIn(body: Buffer): number | undefined {
  mustHave(body, 4, 'SETTINGS');
  const count = body.readUInt32BE(0);
  if (body.length < 4 + count * 8) throw invalidArgument(`SPDY: SETTINGS says ${count} entries and has fewer`);
  let found: number | undefined;
  for (let at = 4; at < 4 + count * 8; at += 8) {
    // The first byte has flags.
    if ((body.readUInt32BE(at) & 0x00ff_ffff) === SETTING_INITIAL_WINDOW_SIZE) found = body.readUInt32BE(at + 4);
  }
  return found;
}

function idAt(body: Buffer, offset: number): number {
  return body.readUInt32BE(offset) & ID_MASK;
}

function mustHave(body: Buffer, bytes: number, name: string): void {
  if (body.length < bytes)
    throw invalidArgument(`SPDY: ${name} of ${body.length} bytes, at least ${bytes} belong to it`);
}
