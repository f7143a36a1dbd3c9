import { readdir } from 'node:fs/promises';
import { errnoOf } from '../../../lib/errors.ts';

/** The names in a folder; none when there is no such folder. */
export async function namesIn(path: string): Promise<string[]> {
  try {
    return await readdir(path);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(errnoOf(error) ?? '')) return [];
    throw error;
  }
}

/** Of sandboxes and containers. */
export const OBJECT_ID = /^[0-9a-f]{64}$/;
