/** HTTP/2's frames and codes (RFC 9113), as far as a server of gRPC has to do with them. */

export const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1');
export const HEAD_BYTES = 9;
/** The largest payload that everybody takes, and the most that we do. */
export const MOST_PAYLOAD_BYTES = 16_384;
/** That a client may announce as what it takes (RFC 9113, 6.5.2). */
export const LARGEST_FRAME_BYTES = 2 ** 24 - 1;
/** What the windows of a connection and of its streams are until somebody says otherwise. */
export const DEFAULT_WINDOW = 65_535;
export const LARGEST_WINDOW = 0x7fff_ffff;

export const FRAME = {
  data: 0,
  headers: 1,
  priority: 2,
  rstStream: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

export const FLAG = { endStream: 0x1, ack: 0x1, endHeaders: 0x4, padded: 0x8, priority: 0x20 } as const;

export const SETTING = { maxConcurrentStreams: 3, initialWindow: 4, maxFrameSize: 5, maxHeaderList: 6 } as const;

export const CODE = {
  noError: 0,
  protocolError: 1,
  internalError: 2,
  flowControlError: 3,
  streamClosed: 5,
  frameSizeError: 6,
  refusedStream: 7,
  compressionError: 9,
  enhanceYourCalm: 11,
} as const;
export type Code = (typeof CODE)[keyof typeof CODE];

export interface Frame {
  readonly type: number;
  readonly flags: number;
  /** 0: the connection itself. */
  readonly streamId: number;
  /** Not to be kept: memory of what was read with it. */
  readonly payload: Buffer;
}

/** What the other side has done ends the connection, with this code for its last word. */
export class ConnectionError extends Error {
  readonly code: Code;

  constructor(code: Code, message: string) {
    super(message);
    this.name = 'ConnectionError';
    this.code = code;
  }
}

/** The nine bytes before a payload. */
export function headOf(type: number, flags: number, streamId: number, bytes: number): Buffer {
  const head = Buffer.allocUnsafe(HEAD_BYTES);
  head.writeUIntBE(bytes, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(streamId, 5);
  return head;
}

export function frameOf(type: number, flags: number, streamId: number, payload: Uint8Array): Buffer {
  return Buffer.concat([headOf(type, flags, streamId, payload.length), payload]);
}

/** A payload of 32-bit numbers. */
export function numbers(...values: readonly number[]): Buffer {
  const bytes = Buffer.allocUnsafe(values.length * 4);
  for (const [index, value] of values.entries()) bytes.writeUInt32BE(value, index * 4);
  return bytes;
}

export function settings(values: readonly (readonly [setting: number, value: number])[]): Buffer {
  const bytes = Buffer.allocUnsafe(values.length * 6);
  for (const [index, [setting, value]] of values.entries()) {
    bytes.writeUInt16BE(setting, index * 6);
    bytes.writeUInt32BE(value, index * 6 + 2);
  }
  return bytes;
}
