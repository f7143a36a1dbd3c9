import { open, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf } from '../../lib/errors.ts';
import { parseExitFile, type ExitRecord } from './exit-status.ts';

/** Undefined while there is no whole number in the file: empty and torn files are not there yet. */
export async function readExitFile(exitsDir: string, id: string): Promise<ExitRecord | undefined> {
  try {
    await using file = await open(join(exitsDir, id), 'r');
    const { mtimeMs } = await file.stat();
    const code = parseExitFile(await file.readFile('utf8'));
    return code === undefined ? undefined : { code, writtenAtWallMs: mtimeMs };
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

export async function forgetExitFile(exitsDir: string, id: string): Promise<void> {
  try {
    await unlink(join(exitsDir, id));
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
  }
}
