import type { Duplex } from 'node:stream';
import type { Clock, Timer } from '../clock.ts';
import { canceled, errnoOf, invalidArgument, messageOf } from '../errors.ts';
import type { Log } from '../log.ts';
import { InboundBudget } from './inbound-budget.ts';
import { FrameReader } from './frame-reader.ts';
import { FrameWriter } from './frame-writer.ts';
import type { Done } from './frame-writer.ts';
import {
  DEFAULT_WINDOW,
  GO_AWAY_STATUS,
  goAway,
  ping,
  RST_STATUS,
  rstStream,
  settings,
  synReply,
  synStream,
  windowUpdate,
} from './frames.ts';
import type { Frame, GoAwayStatus, Side } from './frames.ts';
import { decodeHeaderBlock, HeaderBlocks } from './header-block.ts';
import type { Headers } from './header-block.ts';
import { HeaderInflater } from './header-inflater.ts';
import { WHOLE_CONNECTION } from './send-windows.ts';
import { SpdyStream } from './spdy-stream.ts';
import type { StreamCarrier, StreamUse } from './spdy-stream.ts';

/** A stream that the other side opens. It is to be accepted or refused at once. */
export interface StreamOffer {
  readonly id: number;
  readonly headers: Headers;
  accept(use: StreamUse): SpdyStream;
  refuse(): void;
}

export interface SpdyConnectionOptions {
  readonly transport: Duplex;
  /** Which one is ours. Absent: the server's. */
  readonly side?: Side;
  readonly clock: Clock;
  readonly log: Log;
  /** Told of whatever comes, and of streams' bytes that go. */
  readonly active: () => void;
  /** Absent: whatever the other side opens is refused. */
  readonly onStream?: (offer: StreamOffer) => void;
}

/** The other side's window for each stream, and for all of them together: what it may send before we have read it. */
const STREAM_WINDOW = 256 * 1024;
const CONNECTION_WINDOW = 4 * 1024 * 1024;
/** A connection that is forwarded has two, so this is 512 of them at once. */
const MAX_STREAMS = 1_024;
/** While nothing is read off the connection, only writing to it tells that the other side has gone. */
const PING_WHILE_HELD_MS = 5_000;
/** For the other side to close as well, after we have. */
const FAREWELL_MS = 10_000;

/**
 * Our side of one SPDY/3.1 connection, over whatever carries bytes. Whatever the other side sends, the worst that happens is the end of this
 * connection, and what is held for it is bounded.
 */
export class SpdyConnection implements StreamCarrier {
  readonly #options: SpdyConnectionOptions;
  readonly #side: Side;
  readonly #transport: Duplex;
  readonly #reader = new FrameReader();
  readonly #writer: FrameWriter;
  readonly #inflater = new HeaderInflater();
  readonly #blocks = new HeaderBlocks();
  readonly #budget = new InboundBudget();
  readonly #streams = new Map<number, SpdyStream>();
  /** Bytes that we have taken and the other side has not been told of, by window. */
  readonly #owed = new Map<number, number>();
  readonly #gone = new AbortController();
  #lastStreamId = 0;
  #otherLeaves = false;
  #leaving = false;
  #farewell: Timer | undefined;

  constructor(options: SpdyConnectionOptions) {
    this.#options = options;
    this.#side = options.side ?? 'server';
    this.#transport = options.transport;
    this.#writer = new FrameWriter(options.transport, this.#side, options.active);
    this.#transport.on('error', (error) => this.destroy(errnoOf(error) ?? messageOf(error)));
    this.#transport.on('close', () => this.destroy('closed'));
    this.#writer.control(settings(STREAM_WINDOW));
    this.#writer.control(windowUpdate(WHOLE_CONNECTION, CONNECTION_WINDOW - DEFAULT_WINDOW));
    void this.#read();
  }

  /** Fires when the connection is over, for whatever reason. */
  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  /** Says goodbye; what was written before is still sent. The streams that are left are cut. */
  close(): void {
    this.#leave(GO_AWAY_STATUS.ok);
  }

  /** Ends the connection at once. */
  destroy(reason: string): void {
    if (this.gone.aborted) return;
    const error = canceled(`the connection is over: ${reason}`);
    this.#gone.abort(error);
    this.#farewell?.cancel();
    this.#writer.stop(error);
    for (const stream of this.#streams.values()) stream.destroy(error);
    this.#inflater.close();
    this.#budget.wake();
    this.#transport.destroy();
  }

  /**
   * For the client's side. What is written goes out at once: whether the other side accepts the stream shows by what comes back, and one that it
   * refuses is destroyed.
   *
   * @throws Canceled when the connection is over or the other side takes no more
   */
  open(headers: Readonly<Record<string, string>>, use: StreamUse): SpdyStream {
    if (this.#over || this.#otherLeaves) throw canceled('the connection takes no more streams');
    const id = this.#lastStreamId === 0 ? 1 : this.#lastStreamId + 2;
    this.#lastStreamId = id;
    const stream = this.#newStream(id, use);
    this.#writer.control(synStream(id, this.#blocks.next(headers)));
    return stream;
  }

  send(streamId: number, bytes: Buffer, done: Done): void {
    this.#writer.data(streamId, bytes, done);
  }

  sendEnd(streamId: number, done: Done): void {
    this.#writer.dataEnd(streamId, done);
  }

  sendReset(streamId: number): void {
    this.#writer.control(rstStream(streamId, RST_STATUS.cancel));
  }

  taken(streamId: number, bytes: number): void {
    // A stream that is gone needs no window; the connection goes on.
    if (this.#streams.has(streamId)) this.#owe(streamId, bytes, STREAM_WINDOW);
    this.#owe(WHOLE_CONNECTION, bytes, CONNECTION_WINDOW);
  }

  forget(streamId: number): void {
    this.#streams.delete(streamId);
    this.#writer.closeStream(streamId);
    this.#owed.delete(streamId);
    if (this.#otherLeaves && this.#streams.size === 0) this.close();
  }

  async #read(): Promise<void> {
    try {
      // After an error the transport is still needed for the farewell.
      for await (const chunk of this.#transport.iterator({ destroyOnReturn: false })) {
        this.#options.active();
        for (const frame of this.#reader.read(chunk as Buffer)) {
          const pending = this.#receive(frame);
          if (pending !== undefined) await pending;
          if (this.#over) return;
        }
        if (this.#budget.exhausted) await this.#room();
        await this.#writer.answersRead();
        if (this.#over) return;
      }
      this.destroy('the other side closed it');
    } catch (error) {
      this.#options.log.debug({ error: messageOf(error) }, 'the other side does not keep to SPDY');
      this.#leave(GO_AWAY_STATUS.protocolError);
    } finally {
      // What comes after our goodbye is dropped, until the other side closes its end as well.
      this.#transport.once('end', () => this.destroy('the other side closed it'));
      this.#transport.resume();
    }
  }

  get #over(): boolean {
    return this.#leaving || this.gone.aborted;
  }

  /** A promise only where there is something to wait for. */
  #receive(frame: Frame): Promise<void> | undefined {
    switch (frame.kind) {
      case 'data':
        this.#receiveData(frame.streamId, frame.payload, frame.fin);
        return undefined;
      case 'synStream':
        return this.#receiveStream(frame);
      case 'headers':
      case 'synReply':
        // They say nothing to us, but are a part of the compressed stream.
        return this.#inflater.inflate(frame.block).then(() => {
          if (frame.fin) this.#streams.get(frame.streamId)?.endInput();
        });
      case 'rstStream':
        this.#streams.get(frame.streamId)?.resetByOther();
        return undefined;
      case 'settings':
        if (frame.initialWindow !== undefined && !this.#writer.setInitialWindow(frame.initialWindow)) {
          throw invalidArgument('SPDY: SETTINGS makes a window too large');
        }
        return undefined;
      case 'windowUpdate':
        this.#receiveUpdate(frame.streamId, frame.delta);
        return undefined;
      case 'ping':
        // The client's are odd, the server's even. Those of the other side are sent back as they are, and ours are answers.
        if ((frame.id % 2 === 1) !== (this.#side === 'client')) this.#writer.control(ping(frame.id));
        else this.#writer.pingAnswered(frame.id);
        return undefined;
      case 'goAway':
        this.#otherLeaves = true;
        if (this.#streams.size === 0) this.close();
        return undefined;
    }
  }

  #receiveData(streamId: number, payload: Buffer, fin: boolean): void {
    const stream = this.#streams.get(streamId);
    if (stream === undefined) {
      // Of a stream that is over: they send on until they hear of it.
      if (streamId > this.#lastStreamId)
        throw invalidArgument(`SPDY: data for stream ${streamId}, which was never opened`);
      this.#owe(WHOLE_CONNECTION, payload.length, CONNECTION_WINDOW);
      return;
    }
    if (payload.length > 0) stream.arrive(payload);
    if (fin) stream.endInput();
  }

  async #receiveStream(frame: Frame & { kind: 'synStream' }): Promise<void> {
    const id = frame.streamId;
    const headers = decodeHeaderBlock(await this.#inflater.inflate(frame.block));
    if (this.#over) return;
    const { onStream } = this.#options;
    if (this.#side === 'client' || onStream === undefined) {
      this.#writer.control(rstStream(id, RST_STATUS.refusedStream));
      return;
    }
    if (id % 2 !== 1 || id <= this.#lastStreamId) {
      throw invalidArgument(`SPDY: stream ${id} is opened after stream ${this.#lastStreamId}`);
    }
    this.#lastStreamId = id;
    const refuse = (): void => this.#writer.control(rstStream(id, RST_STATUS.refusedStream));
    if (frame.unidirectional || this.#otherLeaves || this.#streams.size >= MAX_STREAMS) {
      refuse();
      return;
    }
    const accept = (use: StreamUse): SpdyStream => {
      const stream = this.#newStream(id, use);
      this.#writer.control(synReply(id, this.#blocks.next()));
      if (frame.fin) stream.endInput();
      return stream;
    };
    onStream({ id, headers, accept, refuse });
  }

  #newStream(id: number, use: StreamUse): SpdyStream {
    const stream = new SpdyStream(id, use, this, this.#budget.account());
    this.#streams.set(id, stream);
    this.#writer.openStream(id);
    return stream;
  }

  #receiveUpdate(streamId: number, delta: number): void {
    if (this.#writer.updateWindow(streamId, delta)) return;
    if (streamId === WHOLE_CONNECTION)
      throw invalidArgument('SPDY: an update makes the window of the connection too large');
    this.#writer.control(rstStream(streamId, RST_STATUS.flowControlError));
    this.#streams.get(streamId)?.resetByOther();
  }

  /** Half a window is collected before the other side is told. */
  #owe(windowId: number, bytes: number, window: number): void {
    const owed = (this.#owed.get(windowId) ?? 0) + bytes;
    if (owed < window / 2) {
      this.#owed.set(windowId, owed);
      return;
    }
    this.#owed.set(windowId, 0);
    this.#writer.control(windowUpdate(windowId, owed));
  }

  async #room(): Promise<void> {
    // The answer to a ping is behind what we do not read: a command that waits for its output to be taken would never read its input.
    this.#writer.windowsOverrun();
    const beat = (): Timer =>
      this.#options.clock.after(PING_WHILE_HELD_MS, () => {
        if (this.#writer.idle) this.#writer.ping();
        timer = beat();
      });
    let timer = beat();
    try {
      while (this.#budget.exhausted && !this.#over) await this.#budget.room();
    } finally {
      timer.cancel();
    }
  }

  #leave(status: GoAwayStatus): void {
    if (this.#over) return;
    this.#leaving = true;
    for (const stream of this.#streams.values()) stream.destroy();
    this.#writer.control(goAway(this.#lastStreamId, status));
    this.#transport.end();
    this.#budget.wake();
    this.#farewell = this.#options.clock.after(FAREWELL_MS, () => this.destroy('the other side does not close it'));
  }
}
