import { watch } from 'node:fs';
import { mkdir, readdir } from 'node:fs/promises';
import { readKeptExit, readWrittenExit, type ExitFolders } from './exit-file.ts';
import type { ExitRecord } from './exit-status.ts';

/** What the exit monitor needs of the folders that exit files are in. */
export interface ExitFolder {
  /** From memory. Undefined while there is no whole number in the file. */
  read(id: string): Promise<ExitRecord | undefined>;
  /**
   * From the disk, which may hang: nobody must wait for the answer who has others to look at. One question at a time, so that a disk that
   * hangs takes one thread from everybody else and no more.
   */
  readKept(id: string): Promise<ExitRecord | undefined>;
  /** Makes it if need be. False: it was not there, so that a watch on it is one on nothing. */
  ensure(): Promise<boolean>;
  /**
   * Tells the name of each file that may have changed, undefined for "any". A hint and no more. `onLost` when nothing will be told any
   * more. Throws when it cannot be watched at all.
   */
  watch(onName: (name: string | undefined) => void, onLost: (error: unknown) => void): Disposable;
}

const MODE = 0o700;

export function exitFolder(folders: ExitFolders): ExitFolder {
  const path = folders.written;
  let lastOfDisk: Promise<unknown> = Promise.resolve();
  return {
    read: (id) => readWrittenExit(folders, id),
    readKept: (id) => {
      const answer = lastOfDisk.then(() => readKeptExit(folders, id));
      lastOfDisk = answer.catch(() => undefined);
      return answer;
    },
    ensure: async () => {
      try {
        await readdir(path);
        return true;
      } catch {
        await mkdir(path, { recursive: true, mode: MODE });
        return false;
      }
    },
    watch: (onName, onLost) => {
      const watcher = watch(path, { persistent: false }, (_event, name) => onName(name ?? undefined));
      watcher.on('error', onLost);
      return { [Symbol.dispose]: () => watcher.close() };
    },
  };
}
