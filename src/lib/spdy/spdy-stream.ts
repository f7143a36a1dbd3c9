import { Duplex } from 'node:stream';
import { canceled } from '../errors.ts';
import { ownBytes } from './inbound-budget.ts';
import type { InboundAccount } from './inbound-budget.ts';

/** Which way bytes go, seen from here. The other way is closed from the beginning, and what comes on it is dropped. */
export type StreamUse = 'input' | 'output' | 'both';

/** What a stream asks of its connection. All of it does nothing once the connection is over, but each `done` is called. */
export interface StreamCarrier {
  send(streamId: number, bytes: Buffer, done: (error?: Error) => void): void;
  /** Closes our half. */
  sendEnd(streamId: number, done: (error?: Error) => void): void;
  /** Ends both halves at once; the other side is told. */
  sendReset(streamId: number): void;
  /** So many bytes of the stream are not held here any more: the other side may send as many again. */
  taken(streamId: number, bytes: number): void;
  /** Nothing of the stream is left. */
  forget(streamId: number): void;
}

const BUFFERED_BYTES = 64 * 1024;

/**
 * One stream of a connection. It holds what has arrived until it is read; {@link SpdyStreamOptions.account} says when that is too
 * much. Destroying it before both halves have ended resets it.
 */
export class SpdyStream extends Duplex {
  readonly id: number;
  readonly #use: StreamUse;
  readonly #carrier: StreamCarrier;
  readonly #account: InboundAccount;
  #arrived: Buffer[] = [];
  #wanted = false;
  /** The other side has closed its half. */
  #inputEnded = false;
  /** We have closed ours. */
  #outputEnded = false;
  #reset = false;
  #endPushed = false;

  constructor(id: number, use: StreamUse, carrier: StreamCarrier, account: InboundAccount) {
    const sides = { readable: use !== 'output', writable: use !== 'input' };
    super({ ...sides, readableHighWaterMark: BUFFERED_BYTES, writableHighWaterMark: BUFFERED_BYTES });
    this.id = id;
    this.#use = use;
    this.#carrier = carrier;
    this.#account = account;
    // Whoever uses the stream hears of it in its own way; without a listener it would end the process.
    this.on('error', () => undefined);
  }

  /** For the connection: the other side has sent this. */
  arrive(payload: Buffer): void {
    if (this.destroyed || this.#inputEnded || this.#use === 'output') {
      this.#carrier.taken(this.id, payload.length);
      return;
    }
    const piece = ownBytes(payload);
    this.#arrived.push(piece);
    this.#account.hold(piece);
    this.#handOn();
  }

  /** For the connection: the other side has closed its half. */
  endInput(): void {
    this.#inputEnded = true;
    this.#handOn();
  }

  /** For the connection: the other side has ended both halves. */
  resetByOther(): void {
    this.#reset = true;
    this.destroy(canceled('the other side reset the stream'));
  }

  override _read(): void {
    this.#wanted = true;
    this.#handOn();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#carrier.send(this.id, chunk, done);
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#outputEnded = true;
    this.#carrier.sendEnd(this.id, done);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    let held = 0;
    for (const piece of this.#arrived) held += piece.length;
    this.#arrived = [];
    this.#account.releaseAll();
    if (held > 0) this.#carrier.taken(this.id, held);
    if (!this.#reset) this.#closeOnTheWire();
    this.#carrier.forget(this.id);
    done(error);
  }

  #closeOnTheWire(): void {
    const inputDone = this.#inputEnded || this.#use === 'output';
    if (inputDone && this.#outputEnded) return;
    if (inputDone && this.#use === 'input') this.#carrier.sendEnd(this.id, () => undefined);
    else this.#carrier.sendReset(this.id);
  }

  #handOn(): void {
    while (this.#wanted) {
      const piece = this.#arrived.shift();
      if (piece === undefined) break;
      this.#account.release(piece);
      this.#wanted = this.push(piece);
      this.#carrier.taken(this.id, piece.length);
    }
    if (this.#inputEnded && this.#arrived.length === 0 && this.readable && !this.#endPushed) {
      this.#endPushed = true;
      this.push(null);
    }
  }
}
