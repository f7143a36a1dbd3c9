import { errnoError, errnoName } from './errno.ts';
import { libc } from './libc.ts';
import { AF_UNIX, SOCK, unixAddress } from './unix-address.ts';

const MSG_DONTWAIT = 0x40;
const PACKET_BYTES = 65_536;

/** The other side of packet sockets. Its calls never wait: a test says when it reads. */
export class FakePacketServer {
  readonly path: string;
  readonly #fd: number;

  constructor(path: string, backlog = 8) {
    this.path = path;
    const address = unixAddress(path);
    this.#fd = checked(libc.socket(AF_UNIX, SOCK.SEQPACKET | SOCK.NONBLOCK | SOCK.CLOEXEC, 0));
    checked(libc.bind(this.#fd, address, address.length));
    checked(libc.listen(this.#fd, backlog));
  }

  /** The oldest of the connections that have been made. */
  accept(): FakePacketPeer {
    return new FakePacketPeer(checked(libc.accept4(this.#fd, null, null, SOCK.NONBLOCK | SOCK.CLOEXEC)));
  }

  close(): void {
    libc.close(this.#fd);
  }
}

export class FakePacketPeer {
  readonly #fd: number;

  constructor(fd: number) {
    this.#fd = fd;
  }

  send(text: string): void {
    checked(libc.send(this.#fd, Buffer.from(text), Buffer.byteLength(text), MSG_DONTWAIT));
  }

  /** The next packet; undefined when there is none yet, empty when none will come. */
  receive(): Buffer | undefined {
    const buffer = Buffer.alloc(PACKET_BYTES);
    const size = Number(libc.recv(this.#fd, buffer, PACKET_BYTES, MSG_DONTWAIT));
    if (size >= 0) return buffer.subarray(0, size);
    const errno = libc.errno();
    if (errnoName(errno) === 'EAGAIN') return undefined;
    throw errnoError(errno, 'receive a packet');
  }

  close(): void {
    libc.close(this.#fd);
  }
}

function checked(result: number | bigint): number {
  if (result < 0) throw errnoError(libc.errno(), 'packet server');
  return Number(result);
}
