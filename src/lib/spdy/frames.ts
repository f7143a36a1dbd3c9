/**
 * SPDY/3.1's frames, as bytes and as data. A control frame is `1 | version 3 | type | flags | length`, a data frame
 * `0 | stream id | flags | length`, each of 8 bytes before its body.
 */

/** Which side of a connection we are: the client opens the streams. */
export type Side = 'client' | 'server';

export const VERSION = 3;
export const HEAD_BYTES = 8;

export const FRAME_TYPE = {
  synStream: 1,
  synReply: 2,
  rstStream: 3,
  settings: 4,
  ping: 6,
  goAway: 7,
  headers: 8,
  windowUpdate: 9,
} as const;

export const FLAG_FIN = 0x01;
export const FLAG_UNIDIRECTIONAL = 0x02;

export const RST_STATUS = {
  protocolError: 1,
  invalidStream: 2,
  refusedStream: 3,
  cancel: 5,
  flowControlError: 7,
} as const;
export type RstStatus = (typeof RST_STATUS)[keyof typeof RST_STATUS];

export const GO_AWAY_STATUS = { ok: 0, protocolError: 1 } as const;
export type GoAwayStatus = (typeof GO_AWAY_STATUS)[keyof typeof GO_AWAY_STATUS];

/** What both windows of a new stream are until somebody says otherwise, and the whole connection's. */
export const DEFAULT_WINDOW = 65_536;
export const LARGEST_WINDOW = 0x7fff_ffff;
export const SETTING_INITIAL_WINDOW_SIZE = 7;

/** A frame that has arrived. */
export type Frame =
  /** A part of a data frame: a long one is handed on as it arrives. `fin` comes with the last part only. */
  | { readonly kind: 'data'; readonly streamId: number; readonly payload: Buffer; readonly fin: boolean }
  | {
      readonly kind: 'synStream';
      readonly streamId: number;
      readonly fin: boolean;
      readonly unidirectional: boolean;
      /** The headers, compressed. */
      readonly block: Buffer;
    }
  | { readonly kind: 'headers'; readonly streamId: number; readonly fin: boolean; readonly block: Buffer }
  | { readonly kind: 'synReply'; readonly streamId: number; readonly fin: boolean; readonly block: Buffer }
  | { readonly kind: 'rstStream'; readonly streamId: number; readonly status: number }
  /** Of all the settings this is the only one that concerns us. */
  | { readonly kind: 'settings'; readonly initialWindow: number | undefined }
  | { readonly kind: 'ping'; readonly id: number }
  | { readonly kind: 'goAway' }
  /** Stream 0 is the whole connection. */
  | { readonly kind: 'windowUpdate'; readonly streamId: number; readonly delta: number };

/** A data frame without its payload, which follows it. */
export function dataHead(streamId: number, payloadBytes: number, fin: boolean): Buffer {
  const head = Buffer.allocUnsafe(HEAD_BYTES);
  head.writeUInt32BE(streamId, 0);
  head.writeUInt32BE(payloadBytes, 4);
  head[4] = fin ? FLAG_FIN : 0;
  return head;
}

/** Opens a stream. `block` has its headers, compressed. */
export function synStream(streamId: number, block: Buffer): Buffer {
  // Of no other stream, and of no priority.
  const frame = controlFrame(FRAME_TYPE.synStream, 0, [streamId, 0], 2 + block.length);
  return Buffer.concat([frame, Buffer.alloc(2), block]);
}

/** Accepts a stream. `block` has no headers in it, but has to be there. */
export function synReply(streamId: number, block: Buffer): Buffer {
  return Buffer.concat([controlFrame(FRAME_TYPE.synReply, 0, [streamId], block.length), block]);
}

export function rstStream(streamId: number, status: RstStatus): Buffer {
  return controlFrame(FRAME_TYPE.rstStream, 0, [streamId, status]);
}

export function settings(initialWindow: number): Buffer {
  return controlFrame(FRAME_TYPE.settings, 0, [1, SETTING_INITIAL_WINDOW_SIZE, initialWindow]);
}

export function ping(id: number): Buffer {
  return controlFrame(FRAME_TYPE.ping, 0, [id]);
}

export function goAway(lastStreamId: number, status: GoAwayStatus): Buffer {
  return controlFrame(FRAME_TYPE.goAway, 0, [lastStreamId, status]);
}

export function windowUpdate(streamId: number, delta: number): Buffer {
  return controlFrame(FRAME_TYPE.windowUpdate, 0, [streamId, delta]);
}

function controlFrame(type: number, flags: number, words: readonly number[], moreBytes = 0): Buffer {
  const frame = Buffer.allocUnsafe(HEAD_BYTES + words.length * 4);
  frame.writeUInt16BE(0x8000 | VERSION, 0);
  frame.writeUInt16BE(type, 2);
  frame.writeUInt32BE(words.length * 4 + moreBytes, 4);
  frame[4] = flags;
  words.forEach((word, index) => frame.writeUInt32BE(word, HEAD_BYTES + index * 4));
  return frame;
}
