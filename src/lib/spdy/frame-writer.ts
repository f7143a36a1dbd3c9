import type { Duplex } from 'node:stream';
import { canceled, unavailable } from '../errors.ts';
import { dataHead, ping } from './frames.ts';
import type { Side } from './frames.ts';
import { SendWindows, WHOLE_CONNECTION } from './send-windows.ts';

/** A frame as long as this costs little, and lets the other streams have their turn soon. */
const MAX_DATA_BYTES = 64 * 1024;
/** Answers that the other side does not read: beyond this its questions are not read either. */
const MAX_QUEUED_CONTROL_BYTES = 64 * 1024;

export type Done = (error?: Error) => void;

interface Sending {
  readonly streamId: number;
  rest: Buffer;
  readonly done: Done;
}

/**
 * What goes out on one connection. Each stream has one frame of data under way at most, so they take turns, and what is queued is
 * bounded by the number of streams; control frames go out at once.
 */
export class FrameWriter {
  readonly #transport: Duplex;
  /** Told when the transport has taken a stream's bytes. Not of pings: our own are no sign of life. */
  readonly #sent: () => void;
  readonly #windows = new SendWindows();
  /** Writes that wait for a window. */
  readonly #parked = new Map<number, Sending>();
  #stopped: Error | undefined;
  #nextPing: number;
  /** The ping whose answer shows that the other side keeps no windows. */
  #windowProbe: number | undefined;
  #queuedControl = 0;
  #controlSent: (() => void) | undefined;

  constructor(transport: Duplex, side: Side, sent: () => void) {
    this.#transport = transport;
    this.#nextPing = side === 'client' ? 1 : 2;
    this.#sent = sent;
    this.#windows.open(WHOLE_CONNECTION);
  }

  openStream(streamId: number): void {
    this.#windows.open(streamId);
  }

  /** What the stream still had to send is dropped, and fails. */
  closeStream(streamId: number): void {
    this.#windows.close(streamId);
    const sending = this.#parked.get(streamId);
    this.#parked.delete(streamId);
    sending?.done(canceled('the stream is closed'));
  }

  /** One call for each stream at a time. */
  data(streamId: number, bytes: Buffer, done: Done): void {
    this.#advance({ streamId, rest: bytes, done });
  }

  dataEnd(streamId: number, done: Done): void {
    this.#write([dataHead(streamId, 0, true)], done);
  }

  control(frame: Buffer): void {
    this.#queuedControl += frame.length;
    this.#write([frame], () => {
      this.#queuedControl -= frame.length;
      this.#controlSent?.();
      this.#controlSent = undefined;
    });
  }

  /** The number of the ping that was sent: the client's are odd, the server's even. */
  ping(): number {
    const id = this.#nextPing;
    this.#nextPing = id >= 0x7fff_fffd ? 2 - (id % 2) : id + 2;
    this.control(ping(id));
    return id;
  }

  pingAnswered(id: number): void {
    if (id !== this.#windowProbe) return;
    this.#windows.keepsNone();
    this.#unpark();
  }

  /** The other side has sent more than our windows let it: it will not update its own either, unless it has shown that it does. */
  windowsOverrun(): void {
    this.#windows.keepsNone();
    this.#unpark();
  }

  /** The other side's WINDOW_UPDATE. False if the window becomes larger than it may be. */
  updateWindow(streamId: number, delta: number): boolean {
    const fits = this.#windows.update(streamId, delta);
    this.#unpark();
    return fits;
  }

  /** The other side's SETTINGS. False if a window becomes larger than it may be. */
  setInitialWindow(bytes: number): boolean {
    const fits = this.#windows.setInitial(bytes);
    this.#unpark();
    return fits;
  }

  /** Nothing that was sent as control frames waits for the other side to read. */
  get idle(): boolean {
    return this.#queuedControl === 0;
  }

  /** Waits while the other side does not read what it is answered. */
  async answersRead(): Promise<void> {
    while (this.#queuedControl > MAX_QUEUED_CONTROL_BYTES && this.#stopped === undefined) {
      await new Promise<void>((resolve) => {
        this.#controlSent = resolve;
      });
    }
  }

  /** Fails what waits and what comes, with `reason`. */
  stop(reason: Error): void {
    this.#stopped ??= reason;
    const parked = [...this.#parked.values()];
    this.#parked.clear();
    for (const sending of parked) sending.done(reason);
    this.#controlSent?.();
    this.#controlSent = undefined;
  }

  #advance(sending: Sending): void {
    const { streamId, done } = sending;
    if (this.#stopped !== undefined || sending.rest.length === 0) {
      done(this.#stopped);
      return;
    }
    const bytes = Math.min(sending.rest.length, MAX_DATA_BYTES, this.#windows.allowance(streamId));
    if (bytes === 0) {
      this.#parked.set(streamId, sending);
      this.#probeForWindows();
      return;
    }
    this.#windows.spend(streamId, bytes);
    const part = sending.rest.subarray(0, bytes);
    sending.rest = sending.rest.subarray(bytes);
    this.#write([dataHead(streamId, bytes, false), part], (error) => {
      if (error === undefined) {
        this.#sent();
        this.#advance(sending);
      } else {
        done(error);
      }
    });
  }

  #unpark(): void {
    const parked = [...this.#parked.values()];
    this.#parked.clear();
    for (const sending of parked) this.#advance(sending);
  }

  /**
   * The first window is used up, and nothing shows that the other side keeps windows. One that does has sent its update when it has read
   * that much, and that is before it comes to answer a ping.
   */
  #probeForWindows(): void {
    if (!this.#windows.unknown || this.#windowProbe !== undefined) return;
    this.#windowProbe = this.ping();
  }

  #write(buffers: readonly Buffer[], done: Done): void {
    if (this.#stopped !== undefined || this.#transport.writableEnded || this.#transport.destroyed) {
      done(this.#stopped ?? unavailable('the connection is closed'));
      return;
    }
    const last = buffers.length - 1;
    this.#transport.cork();
    buffers.forEach((buffer, index) => {
      if (index < last) {
        this.#transport.write(buffer);
        return;
      }
      this.#transport.write(buffer, (error) => done(error ?? undefined));
    });
    this.#transport.uncork();
  }
}
