import { constants, open, type FileHandle } from 'node:fs/promises';
import { invalidArgument } from '../lib/errors.ts';
import { fromNodeError } from './errno.ts';

const CHUNK_BYTES = 64 << 10;

/**
 * The text of a file that a request or a setting has named. Follows symbolic links. Throws InvalidArgument for what is no regular file (a pipe
 * waits for a writer for ever, a device may never end) or has more than `maxBytes`; else by errno. A dead share keeps the thread: see `HostFiles`.
 */
export async function readNamedFile(path: string, maxBytes: number): Promise<string> {
  try {
    await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
    if (!(await file.stat()).isFile()) throw invalidArgument(`${path}: is no regular file`);
    return await content(file, path, maxBytes);
  } catch (error) {
    throw fromNodeError(error, `read ${path}`);
  }
}

/** Counted while it is read: the size of a file of /proc is said to be nothing, and one on a disk may grow. */
async function content(file: FileHandle, path: string, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  for (let bytes = 0; ;) {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(Math.min(CHUNK_BYTES, maxBytes + 1)));
    if (bytesRead === 0) return Buffer.concat(chunks).toString('utf8');
    bytes += bytesRead;
    if (bytes > maxBytes) throw invalidArgument(`${path}: has more than ${String(maxBytes)} bytes`);
    chunks.push(buffer.subarray(0, bytesRead));
  }
}
