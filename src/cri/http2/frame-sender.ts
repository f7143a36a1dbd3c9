import type { Socket } from 'node:net';
import { CODE, ConnectionError } from './wire.ts';

/** Answers to frames that ask for one (SETTINGS, PING, what is refused), while the client reads nothing: somebody who wants to fill our memory. */
const MOST_UNREAD_REPLIES = 1000;
/** So much at a time is copied into one piece; more goes out as it is. */
const MOST_COPIED_BYTES = 64 * 1024;
/** What waits behind it waits where it can be given up. */
const MOST_AT_ONCE_BYTES = 512 * 1024;

/** What goes out on a connection: all that is sent in one turn goes together. */
export class FrameSender {
  readonly #socket: Socket;
  readonly #onRoom: () => void;
  #out: Buffer[] = [];
  #bytes = 0;
  #isDue = false;
  /** The socket has as much as it takes for now. */
  #full = false;
  #unreadReplies = 0;

  /** @param onRoom called when `hasRoom` may have become true again */
  constructor(socket: Socket, onRoom: () => void) {
    this.#socket = socket;
    this.#onRoom = onRoom;
    socket.on('drain', () => {
      this.#full = false;
      this.#unreadReplies = 0;
      onRoom();
    });
  }

  /** False: what is long should wait. */
  get hasRoom(): boolean {
    return !this.#full && this.#bytes < MOST_AT_ONCE_BYTES;
  }

  send(...pieces: readonly Buffer[]): void {
    for (const piece of pieces) {
      this.#out.push(piece);
      this.#bytes += piece.length;
    }
    if (this.#isDue) return;
    this.#isDue = true;
    queueMicrotask(() => this.flush());
  }

  /** Sends what a frame of the client's asks for. Throws ConnectionError for a client that asks and does not read. */
  reply(bytes: Buffer): void {
    if (this.#full && ++this.#unreadReplies > MOST_UNREAD_REPLIES) {
      throw new ConnectionError(CODE.enhanceYourCalm, 'it asks and does not read');
    }
    this.send(bytes);
  }

  /** Now, and not at the end of the turn. */
  flush(): void {
    this.#isDue = false;
    const [out, bytes] = [this.#out, this.#bytes];
    [this.#out, this.#bytes] = [[], 0];
    if (out.length === 0 || !this.#socket.writable) return;
    if (bytes <= MOST_COPIED_BYTES) {
      this.#full = !this.#socket.write(Buffer.concat(out, bytes));
    } else {
      this.#socket.cork();
      for (const piece of out) this.#full = !this.#socket.write(piece);
      this.#socket.uncork();
    }
    if (bytes >= MOST_AT_ONCE_BYTES && !this.#full) this.#onRoom();
  }
}
