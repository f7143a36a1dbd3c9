import { open, stat, unlink, type FileHandle } from 'node:fs/promises';
import { errnoOf, failedPrecondition } from '../lib/errors.ts';
import { errnoError, errnoName } from './errno.ts';
import { libc } from './libc.ts';

const LOCK_EX = 2;
const LOCK_NB = 4;

export interface FileLock extends AsyncDisposable {
  /** What is written in the file: for whoever asks who has it. */
  read(): Promise<string>;
  write(text: string): Promise<void>;
  release(): Promise<void>;
  /** Lets go of the lock and takes the file away. Whoever waits to lock it makes it anew. */
  remove(): Promise<void>;
}

/**
 * An exclusive lock that lasts as long as this process, whatever ends it: the kernel drops it, so a stale lock file never has to be
 * judged. Fails at once with FailedPrecondition when another process has it.
 */
export async function lockFile(path: string): Promise<FileLock> {
  for (;;) {
    const file = await open(path, 'a+', 0o600);
    if (Number(libc.flock(file.fd, LOCK_EX | LOCK_NB)) < 0) {
      const errno = libc.errno();
      await file.close();
      if (errnoName(errno) === 'EAGAIN') throw failedPrecondition(`${path} is locked by another process`);
      throw errnoError(errno, `lock ${path}`);
    }
    if (await isStillAt(path, file)) return held(path, file);
    // Taken away between open and lock: the next one would lock another file of that name.
    await file.close();
  }
}

function held(path: string, file: FileHandle): FileLock {
  const release = (): Promise<void> => file.close();
  return {
    read: async () => {
      const { buffer, bytesRead } = await file.read({ position: 0 });
      return buffer.subarray(0, bytesRead).toString('utf8');
    },
    write: async (text) => {
      await file.truncate();
      await file.appendFile(text);
    },
    release,
    remove: async () => {
      await unlink(path);
      await release();
    },
    [Symbol.asyncDispose]: release,
  };
}

async function isStillAt(path: string, file: FileHandle): Promise<boolean> {
  const ours = await file.stat({ bigint: true });
  try {
    const there = await stat(path, { bigint: true });
    return there.ino === ours.ino && there.dev === ours.dev;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false;
    throw error;
  }
}
