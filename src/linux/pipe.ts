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

/** Throws ResourceExhausted when out of descriptors. */
export function outputPipe(): OutputPipe {
  const [readFd, writeFd] = makePipe();
  return {
    reader: new Socket({ fd: readFd, readable: true, writable: false }),
    writeFd,
    closeWriter: closeOnce(writeFd),
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
