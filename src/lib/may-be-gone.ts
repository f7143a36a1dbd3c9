import { lstat, readdir, rmdir, unlink } from 'node:fs/promises';
import { errnoOf } from './errors.ts';

/** Removes a file. One that is gone already is a success. */
export async function unlinkIfThere(path: string): Promise<void> {
  try {
    await unlink(path);
  } catch (error) {
    if (!isNoSuchPath(error)) throw error;
  }
}

/** Removes an empty folder. One that is gone already is a success; what is no folder, or not empty, is an error. */
export async function rmdirIfThere(path: string): Promise<void> {
  try {
    await rmdir(path);
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
  }
}

/** The names in a folder; none where there is no such folder. */
export async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (isNoSuchPath(error)) return [];
    throw error;
  }
}

/** Whether there is anything of that name, a link too. */
export async function isThere(path: string): Promise<boolean> {
  try {
    await lstat(path);
    return true;
  } catch (error) {
    if (isNoSuchPath(error)) return false;
    throw error;
  }
}

/** Nothing of that name, or a file in the place of a folder on the way to it. */
function isNoSuchPath(error: unknown): boolean {
  const errno = errnoOf(error);
  return errno === 'ENOENT' || errno === 'ENOTDIR';
}
