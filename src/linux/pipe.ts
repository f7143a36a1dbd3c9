import { Socket } from 'node:net';
import type { Readable, Writable } from 'node:stream';
import { errnoError } from './errno.ts';
import { libc } from './libc.ts';

/** A pipe to be written by a child: Node's own `pipe` is a socket, and a program that opens /dev/stdout fails on one. */
export interface OutputPipe {
  readonly reader: Readable;
  /** For the child's stdio. Closed on exec elsewhere. */
  readonly writeFd: number;
  /** Once the child has it: else the reader never sees the end. */
  closeWriter(): void;
  /** How much was written and is not read yet, what Node has read ahead included; 0 when the reader is closed. */
  unread(): number;
}

/** A pipe to be read by a child. */
export interface InputPipe {
  readonly writer: Writable;
  /** For the child's stdio. Closed on exec elsewhere. */
  readonly readFd: number;
  /** Once the child has it: else the writer never hears that nobody reads any more. */
  closeReader(): void;
}

const O_CLOEXEC = 0o2000000;
const FIONREAD = 0x541b;

/** Throws ResourceExhausted when out of descriptors. */
export function outputPipe(): OutputPipe {
  const [readFd, writeFd] = makePipe();
  const reader = new Socket({ fd: readFd, readable: true, writable: false });
  return {
    reader,
    writeFd,
    closeWriter: closeOnce(writeFd),
    unread: () => (reader.destroyed ? 0 : unreadBytes(readFd) + reader.readableLength),
  };
}

/** Throws ResourceExhausted when out of descriptors. */
export function inputPipe(): InputPipe {
  const [readFd, writeFd] = makePipe();
  const writer = new Socket({ fd: writeFd, readable: false, writable: true });
  // A program may end, or close it, before it has read everything.
  writer.on('error', () => undefined);
  return { writer, readFd, closeReader: closeOnce(readFd) };
}

/** How many bytes wait in a pipe (either end) or a terminal; 0 where nobody can tell. */
export function unreadBytes(fd: number): number {
  const count = Buffer.alloc(4);
  return libc.ioctl(fd, FIONREAD, count) < 0 ? 0 : count.readInt32LE(0);
}

function makePipe(): readonly [readFd: number, writeFd: number] {
  const fds = new Int32Array(2);
  if (libc.pipe2(new Uint8Array(fds.buffer), O_CLOEXEC) < 0) throw errnoError(libc.errno(), 'make a pipe');
  const [readFd = -1, writeFd = -1] = fds;
  return [readFd, writeFd];
}

function closeOnce(fd: number): () => void {
  let open = true;
  return () => {
    if (open) libc.close(fd);
    open = false;
  };
}
