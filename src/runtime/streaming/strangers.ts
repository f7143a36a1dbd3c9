import type { Socket } from 'node:net';

/** Whoever can reach the port can open connections; each is a file descriptor. */
const MAX_STRANGERS = 256;

/**
 * The connections that have not shown a URL that is good. When there are too many the oldest has to go: so nobody can use up the
 * daemon's descriptors, nor keep those out who come with a good one.
 */
export class Strangers {
  readonly #sockets = new Set<Socket>();

  add(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    if (this.#sockets.size <= MAX_STRANGERS) return;
    const [oldest] = this.#sockets;
    oldest?.destroy();
    if (oldest !== undefined) this.#sockets.delete(oldest);
  }

  /** It is a client now. */
  known(socket: Socket): void {
    this.#sockets.delete(socket);
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
  }
}
