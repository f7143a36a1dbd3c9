import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf } from '../../lib/errors.ts';
import { unlinkIfThere } from '../../lib/may-be-gone.ts';
import { parseExitFile, type ExitRecord } from './exit-status.ts';

/**
 * The two folders of exit files. A number that is whole in either is the exit code: an id is never used twice.
 */
export interface ExitFolders {
  /** conmon writes here, and it is watched. In memory: what fills a disk, as a pod's volume may, takes no exit with it. */
  readonly written: string;
  /** conmon's exit command copies to here what it has written. On a disk: it outlives a reboot, where there was room for it. */
  readonly kept: string;
}

/** From either folder. Undefined while there is no whole number in a file: empty and torn files are not there yet. */
export async function readExitFile(folders: ExitFolders, id: string): Promise<ExitRecord | undefined> {
  return (await readWrittenExit(folders, id)) ?? (await readKeptExit(folders, id));
}

/** Touches no disk. */
export function readWrittenExit({ written }: ExitFolders, id: string): Promise<ExitRecord | undefined> {
  return readOne(join(written, id));
}

export function readKeptExit({ kept }: ExitFolders, id: string): Promise<ExitRecord | undefined> {
  return readOne(join(kept, id));
}

async function readOne(path: string): Promise<ExitRecord | undefined> {
  try {
    // A pipe that somebody has put there would keep its reader for ever.
    await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const stats = await file.stat();
    if (!stats.isFile()) return undefined;
    const code = parseExitFile(await file.readFile('utf8'));
    return code === undefined ? undefined : { code, writtenAtWallMs: stats.mtimeMs };
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

export async function forgetExitFile(folders: ExitFolders, id: string): Promise<void> {
  for (const folder of [folders.written, folders.kept]) {
    await unlinkIfThere(join(folder, id));
  }
}
