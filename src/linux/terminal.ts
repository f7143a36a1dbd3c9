import { unlink } from 'node:fs/promises';
import { ReadStream } from 'node:tty';
import type { Readable } from 'node:stream';
import type { Clock } from '../lib/clock.ts';
import { canceled } from '../lib/errors.ts';
import { errnoError, errnoName } from './errno.ts';
import { libc } from './libc.ts';
import { unreadBytes } from './pipe.ts';
import { receiveDescriptor } from './received-descriptor.ts';
import { AF_UNIX, SOCK, unixAddress } from './unix-address.ts';

export interface WindowSize {
  /** In characters. */
  readonly width: number;
  readonly height: number;
}

const [TCGETS, TCSETS, TIOCSWINSZ] = [0x5401, 0x5402, 0x5414];
/** More than struct termios has, of which the output flags are the second word. */
const TERMIOS_BYTES = 64;
const OUTPUT_FLAGS_OFFSET = 4;
const ONLCR = 4;
const LARGEST = 0xffff;
const FIONBIO = 0x5421;
/** Between two tries of a terminal that is full. */
const SHORTEST_PAUSE_MS = 2;
const LONGEST_PAUSE_MS = 100;

/** The master side of a pseudo terminal. Closing it hangs up: the kernel sends SIGHUP to the session on the other side. */
export class Terminal implements Disposable {
  /**
   * What is shown. Its reading ends with the error EIO when nobody has the other side open any more, which counts
   * as an end.
   */
  readonly stream: Readable;
  readonly #fd: number;
  readonly #clock: Clock;
  readonly #closed = new AbortController();

  /** Takes over the descriptor. */
  constructor(fd: number, clock: Clock) {
    this.#fd = fd;
    this.#clock = clock;
    this.stream = new ReadStream(fd);
    this.stream.on('error', () => undefined);
    this.stream.once('close', () => this.#closed.abort(canceled('the terminal is closed')));
    libc.ioctl(fd, FIONBIO, Buffer.of(1, 0, 0, 0));
  }

  /**
   * Types it; resolves when the terminal has taken all of it, which is when the other side has read most of it. Node's own stream would stop the
   * whole process until then: it cannot open this side of a terminal anew, and so writes to it as it is.
   * Rejects with Canceled when the terminal is closed.
   */
  async write(bytes: Uint8Array): Promise<void> {
    let pauseMs = SHORTEST_PAUSE_MS;
    for (let rest = bytes; rest.length > 0;) {
      this.#closed.signal.throwIfAborted();
      if (this.stream.destroyed) throw canceled('the terminal is closed');
      const taken = Number(libc.write(this.#fd, rest, rest.length));
      if (taken > 0) {
        rest = rest.subarray(taken);
        pauseMs = SHORTEST_PAUSE_MS;
        continue;
      }
      const errno = taken < 0 ? libc.errno() : 0;
      if (taken < 0 && errnoName(errno) !== 'EAGAIN') throw errnoError(errno, 'write to a terminal');
      await this.#clock.sleep(pauseMs, this.#closed.signal);
      pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
    }
  }

  /** Lines end with CR LF, as whoever shows them on a terminal in raw mode needs it; OCI runtimes turn that off. */
  showLineEnds(): void {
    const settings = Buffer.alloc(TERMIOS_BYTES);
    if (libc.ioctl(this.#fd, TCGETS, settings) < 0) return;
    settings.writeUInt32LE((settings.readUInt32LE(OUTPUT_FLAGS_OFFSET) | ONLCR) >>> 0, OUTPUT_FLAGS_OFFSET);
    libc.ioctl(this.#fd, TCSETS, settings);
  }

  /** The other side hears of it by SIGWINCH. */
  resize({ width, height }: WindowSize): void {
    if (this.stream.destroyed) return;
    const size = Buffer.alloc(8);
    size.writeUInt16LE(Math.min(Math.max(height, 0), LARGEST), 0);
    size.writeUInt16LE(Math.min(Math.max(width, 0), LARGEST), 2);
    libc.ioctl(this.#fd, TIOCSWINSZ, size);
  }

  /** What is shown and not read yet. */
  unread(): number {
    return this.stream.destroyed ? 0 : unreadBytes(this.#fd) + this.stream.readableLength;
  }

  close(): void {
    this.stream.destroy();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/** Where an OCI runtime hands over the master side of the terminal that it has made. */
export class ConsoleSocket implements AsyncDisposable {
  readonly path: string;
  readonly #fd: number;

  /** Listens; `path` must not exist. Throws InvalidArgument for one that is too long. */
  constructor(path: string) {
    this.path = path;
    const address = unixAddress(path);
    this.#fd = checked(libc.socket(AF_UNIX, SOCK.STREAM | SOCK.NONBLOCK | SOCK.CLOEXEC, 0), 'open a console socket');
    try {
      checked(libc.bind(this.#fd, address, address.length), `bind console socket ${path}`);
      checked(libc.listen(this.#fd, 1), `listen on console socket ${path}`);
    } catch (error) {
      libc.close(this.#fd);
      throw error;
    }
  }

  /** The terminal that was handed over; undefined when none was. The runtime does so before it says that its command runs. */
  receive(clock: Clock): Terminal | undefined {
    const connection = Number(libc.accept4(this.#fd, null, null, SOCK.NONBLOCK | SOCK.CLOEXEC));
    if (connection < 0) {
      const errno = libc.errno();
      if (errnoName(errno) === 'EAGAIN') return undefined;
      throw errnoError(errno, `accept on console socket ${this.path}`);
    }
    try {
      const fd = receiveDescriptor(connection);
      return fd === undefined ? undefined : new Terminal(fd, clock);
    } finally {
      libc.close(connection);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    libc.close(this.#fd);
    await unlink(this.path).catch(() => undefined);
  }
}

function checked(result: number | bigint, what: string): number {
  if (result < 0) throw errnoError(libc.errno(), what);
  return Number(result);
}
