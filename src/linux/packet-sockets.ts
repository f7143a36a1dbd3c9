import { errnoOf, GantryError, unavailable } from '../lib/errors.ts';
import { errnoError, errnoName } from './errno.ts';
import { callAsync, libc } from './libc.ts';
import { AF_UNIX, SOCK, unixAddress } from './unix-address.ts';

const [EPOLL_CLOEXEC, EFD_CLOEXEC_NONBLOCK] = [0o2000000, 0o2004000];
const [EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD] = [1, 2, 3];
const [EPOLLIN, EPOLLOUT] = [1, 4];
// epoll_event is packed on x86-64 only.
const [EVENT_BYTES, TOKEN_OFFSET] = process.arch === 'x64' ? [12, 4] : [16, 8];
const MAX_EVENTS = 64;
/** For how long the wait may hold a thread after the process has decided to end without closing this. */
const LONGEST_WAIT_MS = 1_000;
const WAKE_TOKEN = 0;

const [MSG_DONTWAIT, MSG_NOSIGNAL] = [0x40, 0x4000];
const SHUT_WR = 1;
/** Larger than any packet that is sent to us (conmon's: 8193). */
const PACKET_BYTES = 65_536;
/** Of one socket, before the others have their turn. */
const PACKETS_AT_A_TIME = 64;

export interface PacketListener {
  /** Called with each packet, in order. `taken` is to be called when it is not kept in memory any more. */
  onPacket(packet: Buffer, taken: () => void): void;
  /** Called once, last; an error says why it is no ordinary end: ResourceExhausted when too much was not taken. */
  onEnd(error: Error | undefined): void;
}

export interface PacketSocket {
  /** Sends one packet; resolves when the kernel has it, which waits while the other side does not read. Throws Unavailable when it is gone. */
  send(packet: Uint8Array): Promise<void>;
  /** No more packets will be sent. */
  endSending(): void;
  close(): void;
}

interface Connection {
  readonly fd: number;
  readonly token: number;
  readonly listener: PacketListener;
  readonly mostUntakenBytes: number;
  untakenBytes: number;
  toSend: { readonly packet: Uint8Array; readonly sent: PromiseWithResolvers<undefined> }[];
  closed: boolean;
}

/**
 * Connections to unix sockets of the kind SEQPACKET, which Node has no words for. They are read as soon as there is something,
 * whatever becomes of it: whoever writes to them is not held up. All waiting is done by one call in libuv's pool, while there are any.
 */
export class PacketSockets {
  readonly #connections = new Map<number, Connection>();
  readonly #buffer = Buffer.allocUnsafeSlow(PACKET_BYTES);
  #epoll: { readonly fd: number; readonly wake: number } | undefined;
  #token = WAKE_TOKEN;
  #waiting = false;
  #closed = false;

  /**
   * `mostUntakenBytes`: a listener that has more than this is told no more, and the connection is closed.
   * Throws NotFound or Unavailable when nobody listens there.
   */
  connect(
    path: string,
    listener: PacketListener,
    { mostUntakenBytes }: { readonly mostUntakenBytes: number },
  ): PacketSocket {
    if (this.#closed) throw unavailable('no connection is made any more: the daemon is stopping');
    const address = unixAddress(path);
    const fd = checked(libc.socket(AF_UNIX, SOCK.SEQPACKET | SOCK.NONBLOCK | SOCK.CLOEXEC, 0), 'open a socket');
    const connection: Connection = {
      fd,
      token: ++this.#token,
      listener,
      mostUntakenBytes,
      untakenBytes: 0,
      toSend: [],
      closed: false,
    };
    try {
      if (libc.connect(fd, address, address.length) < 0) {
        const errno = libc.errno();
        // A full backlog.
        if (errnoName(errno) === 'EAGAIN') throw unavailable(`connect to ${path}: it does not accept`);
        throw errnoError(errno, `connect to ${path}`);
      }
      this.#control(EPOLL_CTL_ADD, connection, EPOLLIN);
    } catch (error) {
      libc.close(fd);
      throw error;
    }
    this.#connections.set(connection.token, connection);
    void this.#wait();
    return {
      send: (packet) => this.#send(connection, packet),
      endSending: () => {
        if (!connection.closed) libc.shutdown(fd, SHUT_WR);
      },
      close: () => {
        this.#end(connection, undefined);
      },
    };
  }

  get size(): number {
    return this.#connections.size;
  }

  close(): void {
    this.#closed = true;
    for (const connection of [...this.#connections.values()]) this.#end(connection, undefined);
    if (!this.#waiting) this.#letGo();
  }

  async #wait(): Promise<void> {
    if (this.#waiting) return;
    this.#waiting = true;
    const events = Buffer.alloc(MAX_EVENTS * EVENT_BYTES);
    try {
      while (this.#connections.size > 0) {
        const { fd } = this.#open();
        const { result, errno } = await callAsync(libc.epollWait, fd, events, MAX_EVENTS, LONGEST_WAIT_MS);
        if (result < 0 && errnoName(errno) !== 'EINTR') throw errnoError(errno, 'epoll_wait');
        for (let index = 0; index < result; index++) {
          const at = index * EVENT_BYTES;
          this.#happened(Number(events.readBigUInt64LE(at + TOKEN_OFFSET)), events.readUInt32LE(at));
        }
      }
    } catch (error) {
      const reason = error instanceof Error ? error : unavailable(String(error));
      for (const connection of [...this.#connections.values()]) this.#end(connection, reason);
    } finally {
      this.#waiting = false;
      // One that was made by a listener who was told of a failure.
      if (this.#connections.size > 0) void this.#wait();
      else this.#letGo();
    }
  }

  #happened(token: number, events: number): void {
    if (token === WAKE_TOKEN) {
      this.#sleepAgain();
      return;
    }
    const connection = this.#connections.get(token);
    if (connection === undefined) return;
    if ((events & EPOLLOUT) !== 0) this.#flush(connection);
    // An error or a hang-up shows in what recv says.
    if ((events & ~EPOLLOUT) !== 0) this.#read(connection);
  }

  #read(connection: Connection): void {
    for (let rest = PACKETS_AT_A_TIME; rest > 0 && !connection.closed; rest--) {
      const size = Number(libc.recv(connection.fd, this.#buffer, PACKET_BYTES, MSG_DONTWAIT));
      if (size < 0) {
        const errno = libc.errno();
        if (errnoName(errno) === 'EAGAIN') return;
        // The other side is gone, with something unread.
        const reset = errnoName(errno) === 'ECONNRESET';
        this.#end(connection, reset ? undefined : errnoError(errno, 'receive a packet'));
        return;
      }
      if (size === 0) {
        this.#end(connection, undefined);
        return;
      }
      this.#deliver(connection, Buffer.from(this.#buffer.subarray(0, size)));
    }
  }

  #deliver(connection: Connection, packet: Buffer): void {
    connection.untakenBytes += packet.length;
    if (connection.untakenBytes > connection.mostUntakenBytes) {
      const most = String(connection.mostUntakenBytes);
      this.#end(connection, new GantryError('ResourceExhausted', `more than ${most} bytes were not taken`));
      return;
    }
    let taken = false;
    connection.listener.onPacket(packet, () => {
      if (!taken) connection.untakenBytes -= packet.length;
      taken = true;
    });
  }

  #send(connection: Connection, packet: Uint8Array): Promise<void> {
    if (connection.closed) return Promise.reject(unavailable('the connection is closed'));
    const sent = Promise.withResolvers<undefined>();
    connection.toSend.push({ packet, sent });
    if (connection.toSend.length === 1) this.#flush(connection);
    return sent.promise;
  }

  #flush(connection: Connection): void {
    for (let next = connection.toSend[0]; next !== undefined; next = connection.toSend[0]) {
      if (libc.send(connection.fd, next.packet, next.packet.length, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
        const errno = libc.errno();
        if (errnoName(errno) === 'EAGAIN') {
          this.#control(EPOLL_CTL_MOD, connection, EPOLLIN | EPOLLOUT);
          return;
        }
        const failure = errnoError(errno, 'send a packet');
        next.sent.reject(errnoOf(failure) === 'EPIPE' ? unavailable('the other side reads no more') : failure);
      } else next.sent.resolve(undefined);
      connection.toSend.shift();
    }
    this.#control(EPOLL_CTL_MOD, connection, EPOLLIN);
  }

  #end(connection: Connection, error: Error | undefined): void {
    if (connection.closed) return;
    connection.closed = true;
    this.#connections.delete(connection.token);
    this.#control(EPOLL_CTL_DEL, connection, 0);
    libc.close(connection.fd);
    for (const { sent } of connection.toSend.splice(0)) sent.reject(unavailable('the connection is closed'));
    if (this.#connections.size === 0) this.#wake();
    connection.listener.onEnd(error);
  }

  #open(): { readonly fd: number; readonly wake: number } {
    if (this.#epoll !== undefined) return this.#epoll;
    const fd = checked(libc.epollCreate1(EPOLL_CLOEXEC), 'epoll_create1');
    const wake = Number(libc.eventfd(0, EFD_CLOEXEC_NONBLOCK));
    if (wake < 0 || libc.epollCtl(fd, EPOLL_CTL_ADD, wake, eventOf(EPOLLIN, WAKE_TOKEN)) < 0) {
      const error = errnoError(libc.errno(), 'eventfd');
      libc.close(fd);
      if (wake >= 0) libc.close(wake);
      throw error;
    }
    return (this.#epoll = { fd, wake });
  }

  #control(operation: number, { fd, token }: Connection, events: number): void {
    const epoll = operation === EPOLL_CTL_DEL ? this.#epoll : this.#open();
    if (epoll === undefined) return;
    const result = libc.epollCtl(epoll.fd, operation, fd, eventOf(events, token));
    if (operation === EPOLL_CTL_ADD) checked(result, 'epoll_ctl');
  }

  /** The wait ends at once where there is nothing more to wait for. */
  #wake(): void {
    if (this.#epoll === undefined) return;
    const one = Buffer.alloc(8);
    one.writeBigUInt64LE(1n);
    libc.write(this.#epoll.wake, one, one.length);
  }

  #sleepAgain(): void {
    if (this.#epoll !== undefined) libc.read(this.#epoll.wake, Buffer.alloc(8), 8);
  }

  #letGo(): void {
    if (this.#epoll === undefined || this.#connections.size > 0) return;
    libc.close(this.#epoll.fd);
    libc.close(this.#epoll.wake);
    this.#epoll = undefined;
  }
}

function eventOf(events: number, token: number): Buffer {
  const event = Buffer.alloc(16);
  event.writeUInt32LE(events >>> 0, 0);
  event.writeBigUInt64LE(BigInt(token), TOKEN_OFFSET);
  return event;
}

function checked(result: number | bigint, what: string): number {
  if (result < 0) throw errnoError(libc.errno(), what);
  return Number(result);
}
