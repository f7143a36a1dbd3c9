import { EventEmitter } from 'node:events';
import type { Code } from './wire.ts';

/** What is heard of a request after its header. */
export interface RequestBody {
  /** A piece of the body. Not to be kept: memory of what was read with it. */
  piece(bytes: Buffer): void;
  /** The client has sent everything. */
  end(): void;
  /** Nobody waits for the answer any more: the client has reset the stream, or the connection is gone. */
  gone(): void;
}

/** What a stream needs of its connection. */
export interface StreamCarrier {
  sendHeaders(stream: ServerStream, block: Buffer, last: boolean): void;
  /** Sends what the windows and the socket take of what waits on this stream. */
  pump(stream: ServerStream): void;
  reset(stream: ServerStream, code: Code): void;
  /** Whoever was to answer has ended. */
  settled(): void;
}

/** One request and its answer, from the server's side. Emits `drain` when what was written has been sent, after a `write` that said no. */
export class ServerStream extends EventEmitter<{ drain: [] }> {
  readonly id: number;
  /** Bytes that the client lets us send on it. */
  sendWindow: number;
  /** Bytes that the client may send us before we say more. */
  receiveWindow: number;
  /** The client has said all. */
  halfClosed = false;
  /** What has been written and not been sent. */
  readonly waiting: Buffer[] = [];
  /** Goes behind what waits, and ends the stream. */
  trailers: Buffer | undefined;
  /** Set by whoever hears the request. */
  body: RequestBody | undefined;
  readonly #carrier: StreamCarrier;
  #open = true;
  #wantsDrain = false;

  constructor(id: number, carrier: StreamCarrier, windows: { readonly send: number; readonly receive: number }) {
    super();
    this.id = id;
    this.#carrier = carrier;
    this.sendWindow = windows.send;
    this.receiveWindow = windows.receive;
  }

  /** False once the answer is complete or nobody waits for it: then whatever is sent is dropped. */
  get isOpen(): boolean {
    return this.#open;
  }

  /** The header of the answer; with `last` it is all of it. */
  header(block: Buffer, last = false): void {
    if (this.#open) this.#carrier.sendHeaders(this, block, last);
  }

  /** A piece of the answer's body. False: the next one should wait for `drain`. */
  write(bytes: Buffer): boolean {
    if (!this.#open) return true;
    this.waiting.push(bytes);
    this.#carrier.pump(this);
    this.#wantsDrain = this.waiting.length > 0;
    return !this.#wantsDrain;
  }

  /** The answer is complete but for this. */
  end(trailers: Buffer): void {
    if (!this.#open) return;
    this.trailers = trailers;
    this.#carrier.pump(this);
  }

  reset(code: Code): void {
    if (this.#open) this.#carrier.reset(this, code);
  }

  /** To be called once for each request, when nothing is done for it any more. */
  settled(): void {
    this.#carrier.settled();
  }

  /** For the connection: all that waited has been sent. */
  sent(): void {
    if (!this.#wantsDrain) return;
    this.#wantsDrain = false;
    this.emit('drain');
  }

  /** For the connection: nothing more is sent. */
  closed(): void {
    this.#open = false;
    this.waiting.length = 0;
    this.trailers = undefined;
    // Who waits would wait for ever; what it writes next is dropped.
    this.sent();
  }
}
