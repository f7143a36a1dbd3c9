import { randomBytes } from 'node:crypto';
import { mkdir, readdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf, GantryError, messageOf, type ErrorKind } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';

/**
 * Files that are on their way in: a blob while it is downloaded and unpacked. None outlives its pull, and what a crash
 * leaves is removed at the next start.
 */
export class IngestDirectory {
  readonly #dir: string;
  readonly #log: Log;
  readonly #inUse = new Set<string>();

  private constructor(dir: string, log: Log) {
    this.#dir = dir;
    this.#log = log;
  }

  static async open(dir: string, log: Log): Promise<IngestDirectory> {
    await mkdir(dir, { recursive: true, mode: 0o700 });
    for (const name of await readdir(dir)) {
      await unlink(join(dir, name)).catch((error: unknown) => {
        log.warn({ path: join(dir, name), error: messageOf(error) }, 'left-over of a pull cannot be removed');
      });
    }
    return new IngestDirectory(dir, log);
  }

  /** Files that no pull is at work on. */
  async strays(): Promise<string[]> {
    return (await readdir(this.#dir)).map((name) => join(this.#dir, name)).filter((path) => !this.#inUse.has(path));
  }

  /** Gives `fn` the path of a file of its own, which is gone afterwards, whatever happens. */
  async withFile<T>(label: string, fn: (path: string) => Promise<T>): Promise<T> {
    const path = join(this.#dir, `${label}-${randomBytes(6).toString('hex')}`);
    this.#inUse.add(path);
    try {
      return await fn(path);
    } finally {
      await unlink(path).catch((error: unknown) => {
        if (errnoOf(error) !== 'ENOENT')
          this.#log.warn({ path, error: messageOf(error) }, 'temporary file stays behind');
      });
      this.#inUse.delete(path);
    }
  }
}

const LOCAL_KINDS: Readonly<Record<string, ErrorKind>> = {
  ENOSPC: 'ResourceExhausted',
  EDQUOT: 'ResourceExhausted',
  EMFILE: 'ResourceExhausted',
  ENFILE: 'ResourceExhausted',
  EACCES: 'PermissionDenied',
  EPERM: 'PermissionDenied',
  EROFS: 'PermissionDenied',
  ENOENT: 'NotFound',
  ENOTDIR: 'NotFound',
  EISDIR: 'InvalidArgument',
};

const LOCAL_TEXTS: Readonly<Record<string, string>> = {
  ENOSPC: 'no space left on the disk',
  EDQUOT: 'the disk quota is used up',
  ENOENT: 'no such file or directory',
  EACCES: 'permission denied',
  EISDIR: 'is a directory',
};

/** A failure of this machine's own disk, so that nobody looks for it at the registry. */
export function localError(path: string, error: unknown): GantryError {
  const errno = errnoOf(error);
  const kind = (errno === undefined ? undefined : LOCAL_KINDS[errno]) ?? 'Internal';
  const text = LOCAL_TEXTS[errno ?? ''] ?? messageOf(error);
  return new GantryError(kind, `${path}: ${text}`, { cause: error, details: { local: true, errno } });
}
