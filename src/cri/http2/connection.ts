import type { Socket } from 'node:net';
import type { Clock, Timer } from '../../lib/clock.ts';
import { messageOf } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import { FrameReader } from './frame-reader.ts';
import { FrameSender } from './frame-sender.ts';
import { HeaderBlocks, type HeaderBlock } from './header-blocks.ts';
import type { Field } from './header-table.ts';
import { MOST_FIELDS_BYTES } from './hpack.ts';
import { ServerStream, type StreamCarrier } from './server-stream.ts';
import {
  CODE,
  ConnectionError,
  DEFAULT_WINDOW,
  FLAG,
  FRAME,
  frameOf,
  headOf,
  LARGEST_FRAME_BYTES,
  LARGEST_WINDOW,
  MOST_PAYLOAD_BYTES,
  numbers,
  SETTING,
  settings,
  type Code,
  type Frame,
} from './wire.ts';

export interface ConnectionDeps {
  readonly log: Log;
  readonly clock: Clock;
  /** Answers a request, and sets the stream's `body` if there is more to hear of it. */
  readonly onRequest: (stream: ServerStream, fields: readonly Field[]) => void;
}

/** Requests that a client may wait for at a time. */
const MOST_STREAMS = 1000;
/** Those that are worked for, of which it may have given some up. */
const MOST_UNSETTLED = 10 * MOST_STREAMS;
const STREAM_WINDOW = 256 * 1024;
const CONNECTION_WINDOW = 4 * 1024 * 1024;
/** For a client that is cut off to read why. */
const FAREWELL_MS = 1000;

const OUR_SETTINGS = settings([
  [SETTING.maxConcurrentStreams, MOST_STREAMS],
  [SETTING.initialWindow, STREAM_WINDOW],
  [SETTING.maxHeaderList, MOST_FIELDS_BYTES],
]);

/**
 * The server's half of HTTP/2 (RFC 9113) on one connection, as small as gRPC needs it: no pushed streams, no priorities, no compression of what we
 * send, nothing of the request's meaning. A client that breaks the rules loses its connection, and only that.
 */
export class Http2Connection implements StreamCarrier {
  /** Fulfilled when it is over. */
  readonly closed: Promise<void>;
  readonly #deps: ConnectionDeps;
  readonly #socket: Socket;
  readonly #frames = new FrameReader();
  readonly #blocks = new HeaderBlocks();
  readonly #sender: FrameSender;
  readonly #streams = new Map<number, ServerStream>();
  /** Requests that are being worked for, whether somebody still waits for them or not. */
  #unsettled = 0;
  #lastId = 0;
  #heardSettings = false;
  #sendWindow = DEFAULT_WINDOW;
  #initialSendWindow = DEFAULT_WINDOW;
  #receiveWindow = CONNECTION_WINDOW;
  #leaving = false;
  #over = false;
  #farewell: Timer | undefined;

  constructor(socket: Socket, deps: ConnectionDeps) {
    this.#socket = socket;
    this.#deps = deps;
    this.#sender = new FrameSender(socket, () => this.#pumpAll());
    socket.on('data', (chunk: Buffer) => {
      // What still comes while it is being closed is for nobody.
      if (!this.#over) this.#read(chunk);
    });
    // A peer that resets the connection is no fault of ours.
    socket.on('error', (error) => deps.log.debug({ error: messageOf(error) }, 'connection failed'));
    socket.on('end', () => this.cut());
    this.closed = new Promise((resolve) => {
      socket.on('close', () => {
        this.#end();
        resolve();
      });
    });
    this.#send(frameOf(FRAME.settings, 0, 0, OUR_SETTINGS));
    this.#send(frameOf(FRAME.windowUpdate, 0, 0, numbers(CONNECTION_WINDOW - DEFAULT_WINDOW)));
  }

  /** Takes no more requests, and ends when those that are running are answered. */
  leave(): void {
    if (this.#leaving || this.#over) return;
    this.#leaving = true;
    this.#send(frameOf(FRAME.goAway, 0, 0, numbers(this.#lastId, CODE.noError)));
    this.#endIfIdle();
  }

  /** Ends at once. */
  cut(): void {
    this.#socket.destroy();
    this.#end();
  }

  sendHeaders(stream: ServerStream, block: Buffer, last: boolean): void {
    const end = last ? FLAG.endStream : 0;
    for (let at = 0; at === 0 || at < block.length; at += MOST_PAYLOAD_BYTES) {
      const part = block.subarray(at, at + MOST_PAYLOAD_BYTES);
      const whole = at + part.length === block.length ? FLAG.endHeaders : 0;
      const [type, flags] = at === 0 ? [FRAME.headers, end | whole] : [FRAME.continuation, whole];
      this.#send(headOf(type, flags, stream.id, part.length), part);
    }
    if (last) this.#answered(stream);
  }

  pump(stream: ServerStream): void {
    for (let [piece] = stream.waiting; piece !== undefined && this.#sender.hasRoom; [piece] = stream.waiting) {
      const window = Math.min(stream.sendWindow, this.#sendWindow);
      if (window <= 0 && piece.length > 0) return;
      const part = piece.subarray(0, Math.min(window, MOST_PAYLOAD_BYTES));
      if (part.length === piece.length) stream.waiting.shift();
      else stream.waiting[0] = piece.subarray(part.length);
      stream.sendWindow -= part.length;
      this.#sendWindow -= part.length;
      this.#send(headOf(FRAME.data, 0, stream.id, part.length), part);
    }
    if (stream.waiting.length > 0) return;
    if (stream.trailers === undefined) stream.sent();
    else this.sendHeaders(stream, stream.trailers, true);
  }

  reset(stream: ServerStream, code: Code): void {
    this.#send(frameOf(FRAME.rstStream, 0, stream.id, numbers(code)));
    this.#forget(stream);
  }

  settled(): void {
    this.#unsettled--;
  }

  #answered(stream: ServerStream): void {
    // What it still sends is for nobody.
    if (stream.halfClosed) this.#forget(stream);
    else this.reset(stream, CODE.noError);
  }

  #forget(stream: ServerStream): void {
    this.#streams.delete(stream.id);
    stream.closed();
    this.#endIfIdle();
  }

  #endIfIdle(): void {
    if (!this.#leaving || this.#over || this.#streams.size > 0) return;
    this.#sender.flush();
    this.#socket.destroySoon();
  }

  #read(chunk: Buffer): void {
    try {
      for (const frame of this.#frames.read(chunk)) {
        if (this.#over) return;
        this.#receive(frame);
      }
    } catch (error) {
      if (!(error instanceof ConnectionError)) throw error;
      this.#refuse(error);
    }
  }

  /** A last word, and the end. */
  #refuse({ code, message }: ConnectionError): void {
    this.#deps.log.debug({ error: message, code }, 'a client breaks the rules of HTTP/2');
    this.#send(frameOf(FRAME.goAway, 0, 0, numbers(this.#lastId, code)));
    this.#sender.flush();
    this.#end();
    this.#socket.destroySoon();
    this.#farewell = this.#deps.clock.after(FAREWELL_MS, () => this.#socket.destroy());
    this.#socket.once('close', () => this.#farewell?.cancel());
  }

  #end(): void {
    if (this.#over) return;
    this.#over = true;
    for (const stream of this.#streams.values()) {
      stream.closed();
      stream.body?.gone();
    }
    this.#streams.clear();
  }

  #receive(frame: Frame): void {
    const { type } = frame;
    if (!this.#heardSettings && type !== FRAME.settings) throw broken('no SETTINGS at first');
    if (this.#blocks.isOpen && type !== FRAME.continuation) throw broken('a header block is not complete');
    switch (type) {
      case FRAME.data:
        this.#onData(frame);
        break;
      case FRAME.headers:
        this.#onHeaders(frame);
        break;
      case FRAME.continuation:
        this.#onBlock(this.#blocks.goOn(frame));
        break;
      case FRAME.rstStream:
        this.#onReset(frame);
        break;
      case FRAME.settings:
        this.#onSettings(frame);
        break;
      case FRAME.ping:
        this.#onPing(frame);
        break;
      case FRAME.windowUpdate:
        this.#onWindowUpdate(frame);
        break;
      case FRAME.priority:
        mustBe(frame, 5);
        if (frame.streamId === 0) throw broken('PRIORITY of no stream');
        break;
      case FRAME.goAway:
        // The requests that it has made are answered all the same.
        if (frame.streamId !== 0) throw broken('GOAWAY on a stream');
        break;
      case FRAME.pushPromise:
        throw broken('PUSH_PROMISE of a client');
      default:
      // Of a kind that we do not know: to be taken for nothing.
    }
  }

  #onData(frame: Frame): void {
    const { streamId, payload, flags } = frame;
    if (streamId === 0 || streamId > this.#lastId) throw broken('DATA of no stream');
    this.#receiveWindow -= payload.length;
    if (this.#receiveWindow < 0) throw new ConnectionError(CODE.flowControlError, 'more than the connection takes');
    if (this.#receiveWindow < CONNECTION_WINDOW / 2) {
      this.#send(frameOf(FRAME.windowUpdate, 0, 0, numbers(CONNECTION_WINDOW - this.#receiveWindow)));
      this.#receiveWindow = CONNECTION_WINDOW;
    }
    const bytes = withoutPadding(frame, payload);
    const stream = this.#streams.get(streamId);
    if (stream === undefined) return;
    if (stream.halfClosed) {
      this.#abandon(stream, CODE.streamClosed);
      return;
    }
    stream.receiveWindow -= payload.length;
    if (stream.receiveWindow < 0) {
      this.#abandon(stream, CODE.flowControlError);
      return;
    }
    const last = (flags & FLAG.endStream) !== 0;
    if (!last && stream.receiveWindow < STREAM_WINDOW / 2) {
      this.#sender.reply(frameOf(FRAME.windowUpdate, 0, streamId, numbers(STREAM_WINDOW - stream.receiveWindow)));
      stream.receiveWindow = STREAM_WINDOW;
    }
    if (bytes.length > 0) stream.body?.piece(bytes);
    if (last) this.#heardAll(stream);
  }

  #heardAll(stream: ServerStream): void {
    if (!stream.isOpen) return;
    stream.halfClosed = true;
    stream.body?.end();
  }

  #onHeaders(frame: Frame): void {
    if (frame.streamId % 2 === 0) throw broken('HEADERS of no stream that a client may open');
    this.#onBlock(this.#blocks.begin(frame, withoutPadding(frame, frame.payload)));
  }

  /** @param block undefined: it is not complete */
  #onBlock(block: HeaderBlock | undefined): void {
    if (block === undefined) return;
    const { streamId, endStream, fields } = block;
    const known = this.#streams.get(streamId);
    if (known !== undefined) {
      // Trailers, of which gRPC's requests have none.
      if (endStream && !known.halfClosed) this.#heardAll(known);
      else this.#abandon(known, known.halfClosed ? CODE.streamClosed : CODE.protocolError);
      return;
    }
    // One that we have ended while these were on their way, or that we take no more.
    if (streamId <= this.#lastId || this.#leaving) return;
    this.#lastId = streamId;
    if (this.#streams.size >= MOST_STREAMS || this.#unsettled >= MOST_UNSETTLED) {
      this.#sender.reply(frameOf(FRAME.rstStream, 0, streamId, numbers(CODE.refusedStream)));
      return;
    }
    const windows = { send: this.#initialSendWindow, receive: STREAM_WINDOW };
    const stream = new ServerStream(streamId, this, windows);
    stream.halfClosed = endStream;
    this.#streams.set(streamId, stream);
    this.#unsettled++;
    this.#deps.onRequest(stream, fields);
    if (endStream && stream.isOpen) stream.body?.end();
  }

  #onReset(frame: Frame): void {
    mustBe(frame, 4);
    const { streamId } = frame;
    if (streamId === 0 || streamId > this.#lastId) throw broken('RST_STREAM of no stream');
    const stream = this.#streams.get(streamId);
    if (stream === undefined) return;
    this.#forget(stream);
    stream.body?.gone();
  }

  /** What the client does on it ends it. */
  #abandon(stream: ServerStream, code: Code): void {
    this.reset(stream, code);
    stream.body?.gone();
  }

  #onSettings({ streamId, flags, payload }: Frame): void {
    if (streamId !== 0) throw broken('SETTINGS of a stream');
    const isAck = (flags & FLAG.ack) !== 0;
    if (isAck ? payload.length > 0 : payload.length % 6 !== 0) {
      throw new ConnectionError(CODE.frameSizeError, `SETTINGS of ${String(payload.length)} bytes`);
    }
    if (isAck) return;
    this.#heardSettings = true;
    for (let at = 0; at < payload.length; at += 6) {
      const [setting, value] = [payload.readUInt16BE(at), payload.readUInt32BE(at + 2)];
      if (setting === SETTING.initialWindow) this.#setInitialWindow(value);
      // Larger frames are never sent, so that is all that it means here.
      if (setting === SETTING.maxFrameSize && (value < MOST_PAYLOAD_BYTES || value > LARGEST_FRAME_BYTES)) {
        throw broken(`frames of ${String(value)} bytes`);
      }
    }
    this.#sender.reply(headOf(FRAME.settings, FLAG.ack, 0, 0));
    this.#pumpAll();
  }

  #setInitialWindow(bytes: number): void {
    const difference = bytes - this.#initialSendWindow;
    this.#initialSendWindow = bytes;
    for (const stream of this.#streams.values()) {
      stream.sendWindow += difference;
      if (stream.sendWindow > LARGEST_WINDOW) throw tooLarge();
    }
    if (bytes > LARGEST_WINDOW) throw tooLarge();
  }

  #onPing(frame: Frame): void {
    mustBe(frame, 8);
    if (frame.streamId !== 0) throw broken('PING of a stream');
    if ((frame.flags & FLAG.ack) === 0) this.#sender.reply(frameOf(FRAME.ping, FLAG.ack, 0, frame.payload));
  }

  #onWindowUpdate(frame: Frame): void {
    mustBe(frame, 4);
    const { streamId } = frame;
    const more = frame.payload.readUInt32BE(0) & LARGEST_WINDOW;
    if (streamId === 0) {
      this.#sendWindow += more;
      if (more === 0) throw broken('a window that is not enlarged');
      if (this.#sendWindow > LARGEST_WINDOW) throw tooLarge();
      this.#pumpAll();
      return;
    }
    if (streamId > this.#lastId) throw broken('WINDOW_UPDATE of no stream');
    const stream = this.#streams.get(streamId);
    if (stream === undefined) return;
    stream.sendWindow += more;
    if (more === 0) this.#abandon(stream, CODE.protocolError);
    else if (stream.sendWindow > LARGEST_WINDOW) this.#abandon(stream, CODE.flowControlError);
    else this.pump(stream);
  }

  #pumpAll(): void {
    for (const stream of [...this.#streams.values()]) {
      if (stream.waiting.length > 0) this.pump(stream);
    }
  }

  #send(...pieces: readonly Buffer[]): void {
    if (!this.#over) this.#sender.send(...pieces);
  }
}

function broken(message: string): ConnectionError {
  return new ConnectionError(CODE.protocolError, message);
}

function tooLarge(): ConnectionError {
  return new ConnectionError(CODE.flowControlError, 'a window that is too large');
}

function mustBe({ type, payload }: Frame, bytes: number): void {
  if (payload.length === bytes) return;
  throw new ConnectionError(
    CODE.frameSizeError,
    `a frame of type ${String(type)} with ${String(payload.length)} bytes`,
  );
}

function withoutPadding({ flags }: Frame, payload: Buffer): Buffer {
  if ((flags & FLAG.padded) === 0) return payload;
  const [padding] = payload;
  if (padding === undefined || padding >= payload.length) throw broken('padding that is longer than its frame');
  return payload.subarray(1, payload.length - padding);
}
