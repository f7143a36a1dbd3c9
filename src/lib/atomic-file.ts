import { open, rename } from 'node:fs/promises';
import { dirname } from 'node:path';
import { randomBytes } from 'node:crypto';

export interface AtomicWriteOptions {
  readonly mode?: number;
  /** Write through to the disk before the rename (default). Turn off only for files that a reboot may lose. */
  readonly sync?: boolean;
}

/** Writes a file so that a reader, or a power cut, finds the old content or the new, never a part of one. */
export async function writeFileAtomic(
  path: string,
  data: string | Uint8Array,
  options: AtomicWriteOptions = {},
): Promise<void> {
  const { mode = 0o600, sync = true } = options;
  const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`;
  {
    await using file = await open(temporary, 'wx', mode);
    await file.writeFile(data);
    if (sync) await file.sync();
  }
  await rename(temporary, path);
  if (sync) {
    await using directory = await open(dirname(path), 'r');
    await directory.sync();
  }
}
