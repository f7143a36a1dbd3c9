import { open, readdir, readFile, rename, unlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { randomBytes } from 'node:crypto';

export interface AtomicWriteOptions {
  readonly mode?: number;
  /** Write through to the disk before the rename (default). Turn off only for files that a reboot may lose. */
  readonly sync?: boolean;
}

const TEMPORARY = /^\.[0-9a-f]{12}\.tmp$/;

/** Whether `name` is what a {@link writeFileAtomic} of `path` leaves in the folder when its process is killed. */
export function isTemporaryOf(name: string, path: string): boolean {
  const target = basename(path);
  return name.startsWith(target) && TEMPORARY.test(name.slice(target.length));
}

/** Takes away what processes that were killed have left of `path`. Only for whoever is the only one to write it. */
export async function removeTemporariesOf(path: string): Promise<void> {
  const folder = dirname(path);
  for (const name of await readdir(folder)) {
    // Another's or gone: nothing depends on it.
    if (isTemporaryOf(name, path)) await unlink(join(folder, name)).catch(() => undefined);
  }
}

/** Writes a file so that a reader, or a power cut, finds the old content or the new, never a part of one. */
export async function writeFileAtomic(
  path: string,
  data: string | Uint8Array,
  options: AtomicWriteOptions = {},
): Promise<void> {
  const { mode = 0o600, sync = true } = options;
  const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`;
  try {
    {
      await using file = await open(temporary, 'wx', mode);
      await file.writeFile(data);
      if (sync) await file.sync();
    }
    await rename(temporary, path);
  } catch (error) {
    // A full disk must not be filled with what did not fit.
    await unlink(temporary).catch(() => undefined);
    throw error;
  }
  if (sync) {
    await using directory = await open(dirname(path), 'r');
    await directory.sync();
  }
}

/** Writes as {@link writeFileAtomic} does, unless the file has just this content: a full disk is no reason to fail then. */
export async function keepFile(path: string, text: string, options: AtomicWriteOptions = {}): Promise<void> {
  const present = await readFile(path, 'utf8').catch(() => undefined);
  if (present !== text) await writeFileAtomic(path, text, options);
}
