import { open } from 'node:fs/promises';
import { failedPrecondition } from '../lib/errors.ts';
import { errnoError, errnoName } from './errno.ts';
import { libc } from './libc.ts';

const LOCK_EX = 2;
const LOCK_NB = 4;

export interface FileLock extends AsyncDisposable {
  release(): Promise<void>;
}

/**
 * An exclusive lock that lasts as long as this process, whatever ends it: the kernel drops it, so a stale lock file never has to be
 * judged. Fails at once with FailedPrecondition when another process has it.
 */
export async function lockFile(path: string): Promise<FileLock> {
  const file = await open(path, 'a', 0o600);
  if (Number(libc.flock(file.fd, LOCK_EX | LOCK_NB)) < 0) {
    const errno = libc.errno();
    await file.close();
    if (errnoName(errno) === 'EAGAIN') throw failedPrecondition(`${path} is locked by another process`);
    throw errnoError(errno, `lock ${path}`);
  }
  const release = (): Promise<void> => file.close();
  return { release, [Symbol.asyncDispose]: release };
}
