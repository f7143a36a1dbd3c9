import { GantryError, internal, isKind, notImplemented } from '../lib/errors.ts';
import { toGrpc } from './error-mapping.ts';
import type { Field } from './http2/header-table.ts';
import { headerBlock } from './http2/hpack.ts';

/** gRPC's words in HTTP/2 (its PROTOCOL-HTTP2 document), of the server's side. */

const CONTENT_TYPE = 'application/grpc';
const STATUS: Field = [':status', '200'];
const TYPE: Field = ['content-type', CONTENT_TYPE];
const MESSAGE_HEAD_BYTES = 5;
/** kubelet's and crictl's own limit on a message that they receive. Requests are small. */
const MAX_REQUEST_BYTES = 16 * 1024 * 1024;

/** Before the messages of every answer that has some. */
export const ANSWER_HEADER = headerBlock([STATUS, TYPE]);
/** After the last message of an answer that succeeds. */
export const SUCCESS = headerBlock([['grpc-status', '0']]);

/** What the header of a request says. */
export interface RequestHeader {
  /** `/package.Service/Method` */
  readonly path: string;
  /** How long the client waits; undefined: for ever. */
  readonly timeoutMs?: number;
}

/** A header, or all of the answer to one that is no request of gRPC. */
export type ReadHeader = RequestHeader | { readonly refusal: Buffer };

const UNITS_MS: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 };

export function readHeader(fields: readonly Field[]): ReadHeader {
  const said = new Map(fields);
  const path = said.get(':path');
  if (said.get(':method') !== 'POST' || path === undefined) return { refusal: plain('405', [['allow', 'POST']]) };
  const type = said.get('content-type') ?? '';
  if (!/^application\/grpc(\+proto)?(;|$)/.test(type)) return { refusal: plain('415', []) };
  const timeout = said.get('grpc-timeout');
  if (timeout === undefined) return { path };
  const [, digits, unit = ''] = /^(\d{1,8})([HMSmun])$/.exec(timeout) ?? [];
  if (digits === undefined) return { refusal: failure(internal(`grpc-timeout is no time: ${timeout}`), true) };
  return { path, timeoutMs: Number(digits) * (UNITS_MS[unit] ?? 0) };
}

function plain(status: string, fields: readonly Field[]): Buffer {
  return headerBlock([[':status', status], ...fields]);
}

/** The end of an answer that fails, or with `whole` all of it. */
export function failure(error: unknown, whole: boolean): Buffer {
  const { code, details } = toGrpc(error);
  const fields: Field[] = [
    ['grpc-status', String(code)],
    ['grpc-message', percentEncoded(details)],
  ];
  if (isKind(error, 'NotImplemented')) fields.push(['grpc-accept-encoding', 'identity']);
  return headerBlock(whole ? [STATUS, TYPE, ...fields] : fields);
}

/** Printable ASCII is as it is. */
function percentEncoded(text: string): string {
  if (!/[^ -~]|%/.test(text)) return text;
  let encoded = '';
  for (const byte of Buffer.from(text, 'utf8')) {
    const printable = byte >= 0x20 && byte <= 0x7e && byte !== 0x25;
    encoded += printable ? String.fromCharCode(byte) : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  }
  return encoded;
}

/** A message with its length before it. */
export function framed(message: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(MESSAGE_HEAD_BYTES + message.length);
  bytes[0] = 0;
  bytes.writeUInt32BE(message.length, 1);
  bytes.set(message, MESSAGE_HEAD_BYTES);
  return bytes;
}

/** Gathers the one message of a request. */
export class MessageReader {
  #kept = Buffer.alloc(0);
  #bytes = 0;

  /** Takes a piece; keeps no memory of the caller's. Throws ResourceExhausted for a message that is too large, NotImplemented for a compressed one. */
  push(piece: Buffer): void {
    const end = this.#bytes + piece.length;
    if (end > this.#kept.length) {
      const grown = Buffer.allocUnsafe(Math.max(end, 2 * this.#kept.length));
      this.#kept.copy(grown, 0, 0, this.#bytes);
      this.#kept = grown;
    }
    piece.copy(this.#kept, this.#bytes);
    this.#bytes = end;
    if (end < MESSAGE_HEAD_BYTES) return;
    if (this.#kept[0] !== 0) throw notImplemented('the request is compressed, which is not understood here');
    const length = this.#kept.readUInt32BE(1);
    if (length > MAX_REQUEST_BYTES) {
      const words = `the request has ${String(length)} bytes, at most ${String(MAX_REQUEST_BYTES)} are read`;
      throw new GantryError('ResourceExhausted', words);
    }
    if (end > MESSAGE_HEAD_BYTES + length) throw internal('the request has more than one message');
  }

  /** The message. Throws Internal if it is not whole. */
  whole(): Buffer {
    const message = this.#kept.subarray(MESSAGE_HEAD_BYTES, this.#bytes);
    if (this.#bytes < MESSAGE_HEAD_BYTES || message.length < this.#kept.readUInt32BE(1)) {
      throw internal('the request ends before its message does');
    }
    return message;
  }
}
