import { Socket } from 'node:net';
import type { Readable } from 'node:stream';
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

const O_CLOEXEC = 0o2000000;

/** Throws ResourceExhausted when out of descriptors. */
export function outputPipe(): OutputPipe {
  const fds = new Int32Array(2);
  if (libc.pipe2(new Uint8Array(fds.buffer), O_CLOEXEC) < 0) throw errnoError(libc.errno(), 'make a pipe');
  const [readFd = -1, writeFd = -1] = fds;
  let open = true;
  return {
    reader: new Socket({ fd: readFd, readable: true, writable: false }),
    writeFd,
    closeWriter: () => {
      if (open) libc.close(writeFd);
      open = false;
    },
  };
}
