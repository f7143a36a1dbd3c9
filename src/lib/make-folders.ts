import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { errnoOf } from './errors.ts';

/**
 * Makes a folder and what is missing above it; one that is there already, or a link to one, is a success and keeps its mode.
 * Node's own recursive mkdir must not be given a path that a user chose: in /proc, which answers ENOENT to every mkdir, it asks in
 * turn for the folder and for the one above, for ever, and keeps a thread of the pool busy with it.
 *
 * @throws Node's error of the call that failed, with `path` and `code`
 */
export async function makeFolders(path: string, mode: number): Promise<void> {
  try {
    await makeOne(path, mode);
  } catch (error) {
    const above = dirname(path);
    if (errnoOf(error) !== 'ENOENT' || above === path) throw error;
    await makeFolders(above, mode);
    await makeOne(path, mode);
  }
}

async function makeOne(path: string, mode: number): Promise<void> {
  try {
    await mkdir(path, { mode });
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error;
    const found = await stat(path).catch(() => undefined);
    if (found?.isDirectory() !== true) throw error;
  }
}
