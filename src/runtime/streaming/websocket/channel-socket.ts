import { Duplex } from 'node:stream';
import type { RawData, WebSocket } from 'ws';
import type { Clock, Timer } from '../../../lib/clock.ts';
import { canceled, unavailable } from '../../../lib/errors.ts';
import { SendAhead } from '../../../lib/send-ahead.ts';
import { ownBytes } from '../../../lib/spdy/inbound-budget.ts';
import { IdleWatch } from '../idle-watch.ts';

export interface ChannelSocketOptions {
  readonly webSocket: WebSocket;
  readonly clock: Clock;
  /** `base64`: messages are text, the channel a digit, the bytes in base64. */
  readonly codec: 'binary' | 'base64';
  /** The client closes a channel by a message on channel 255 that has its number. */
  readonly closesChannels: boolean;
  /** The connection is cut when nothing has come or gone for so long. */
  readonly idleMs: number;
}

const CLOSE_CHANNEL = 255;
const NORMAL_CLOSURE = 1000;
const BUFFERED_BYTES = 64 * 1024;
/** While nothing is read off the connection, only writing to it tells that the client has gone. */
const PING_WHILE_HELD_MS = 5_000;
/** For a client that breaks the protocol to hear so. */
const FAREWELL_MS = 2_000;

/** What the wire has of a channel. */
interface Receiver {
  receive(payload: Buffer): void;
  endReceiving(): void;
}

/**
 * Numbered channels over one WebSocket: each message begins with its channel's number. The protocol has no windows, so a channel that
 * is not read holds up the whole connection.
 */
export class ChannelSocket {
  readonly #options: ChannelSocketOptions;
  readonly #webSocket: WebSocket;
  readonly #receivers = new Map<number, Receiver>();
  readonly #open = new Set<ChannelStream>();
  /** Channels whose readers have enough for now. */
  readonly #full = new Set<number>();
  readonly #gone = new AbortController();
  readonly #idle: IdleWatch;
  #pings: Timer | undefined;
  #farewell: Timer | undefined;

  constructor(options: ChannelSocketOptions) {
    this.#options = options;
    this.#webSocket = options.webSocket;
    this.#idle = new IdleWatch(options.clock, options.idleMs, () => this.cut());
    // It does not keep to the protocol, and has been told.
    this.#webSocket.on('error', () => {
      this.#farewell = options.clock.after(FAREWELL_MS, () => this.cut());
    });
    this.#webSocket.on('close', () => this.#end());
    this.#webSocket.on('ping', this.#idle.touch);
    this.#webSocket.on('pong', this.#idle.touch);
    this.#webSocket.on('message', (data: RawData) => this.#receive(data as Buffer));
    this.#webSocket.resume();
  }

  /** Fires when the connection is over, for whatever reason. */
  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  /** A channel with a stream of its own. */
  channel(number: number, use: 'input' | 'output' | 'both'): ChannelStream {
    const stream: ChannelStream = new ChannelStream(use, {
      send: (bytes, done) => this.send(number, bytes, done),
      wanted: (wanted) => this.#setFull(number, !wanted),
      closed: () => {
        this.#setFull(number, false);
        this.#receivers.delete(number);
        this.#open.delete(stream);
      },
    });
    this.#open.add(stream);
    if (use !== 'output') this.#receivers.set(number, stream);
    return stream;
  }

  /** A channel whose messages are small and never held back. */
  onMessage(number: number, receive: (payload: Buffer) => void): void {
    this.#receivers.set(number, { receive, endReceiving: () => undefined });
  }

  send(number: number, bytes: Buffer, done: (error?: Error) => void = () => undefined): void {
    if (this.gone.aborted) {
      done(unavailable('the connection is closed'));
      return;
    }
    const sent = (error?: Error | null): void => {
      if (error === null || error === undefined) this.#idle.touch();
      done(error ?? undefined);
    };
    if (this.#options.codec === 'base64') {
      this.#webSocket.send(`${number}${bytes.toString('base64')}`, sent);
    } else {
      this.#webSocket.send(Buffer.concat([Buffer.of(number), bytes]), { binary: true }, sent);
    }
  }

  /** Says that nothing more will come, after what was sent before; the client answers when it has read all of it. */
  close(): void {
    this.#webSocket.close(NORMAL_CLOSURE);
    this.#webSocket.resume();
  }

  /** Ends the connection at once. */
  cut(): void {
    this.#webSocket.terminate();
  }

  #receive(data: Buffer): void {
    this.#idle.touch();
    const [first] = data;
    if (first === undefined) return;
    if (this.#options.closesChannels && first === CLOSE_CHANNEL) {
      const [, channel] = data;
      if (channel !== undefined) this.#receivers.get(channel)?.endReceiving();
      return;
    }
    const isText = this.#options.codec === 'base64';
    const receiver = this.#receivers.get(isText ? first - 0x30 : first);
    if (receiver === undefined || data.length === 1) return;
    receiver.receive(isText ? Buffer.from(data.toString('latin1', 1), 'base64') : data.subarray(1));
  }

  #setFull(number: number, full: boolean): void {
    if (full) this.#full.add(number);
    else this.#full.delete(number);
    if (this.#full.size > 0 && !this.#webSocket.isPaused) {
      this.#webSocket.pause();
      this.#pings = this.#pingLater();
    } else if (this.#full.size === 0 && this.#webSocket.isPaused) {
      this.#pings?.cancel();
      this.#webSocket.resume();
    }
  }

  #pingLater(): Timer {
    return this.#options.clock.after(PING_WHILE_HELD_MS, () => {
      if (this.#webSocket.bufferedAmount === 0) this.#webSocket.ping(() => undefined);
      this.#pings = this.#pingLater();
    });
  }

  #end(): void {
    this.#idle.close();
    this.#pings?.cancel();
    this.#farewell?.cancel();
    const error = canceled('the connection is over: the client closed it');
    this.#gone.abort(error);
    for (const stream of this.#open) stream.destroy(error);
  }
}

interface ChannelCarrier {
  send(bytes: Buffer, done: (error?: Error) => void): void;
  /** Whether more is wanted of what arrives. */
  wanted(wanted: boolean): void;
  closed(): void;
}

/** One channel. Its half that goes out has no end on the wire: the protocol has no word for it. */
export class ChannelStream extends Duplex implements Receiver {
  readonly #use: 'input' | 'output' | 'both';
  readonly #carrier: ChannelCarrier;
  readonly #ahead = new SendAhead(BUFFERED_BYTES);
  #ended = false;

  constructor(use: 'input' | 'output' | 'both', carrier: ChannelCarrier) {
    const sides = { readable: use !== 'output', writable: use !== 'input' };
    super({ ...sides, readableHighWaterMark: BUFFERED_BYTES, writableHighWaterMark: BUFFERED_BYTES });
    this.#use = use;
    this.#carrier = carrier;
    this.on('error', () => undefined);
  }

  receive(payload: Buffer): void {
    if (this.#ended || this.destroyed || this.#use === 'output') return;
    if (!this.push(ownBytes(payload))) this.#carrier.wanted(false);
  }

  endReceiving(): void {
    if (this.#ended || this.destroyed) return;
    this.#ended = true;
    this.push(null);
  }

  override _read(): void {
    this.#carrier.wanted(true);
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#ahead.take(chunk.byteLength, (sent) => this.#carrier.send(chunk, sent), done);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#carrier.closed();
    done(error);
  }
}
