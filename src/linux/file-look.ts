import { open, readdir, realpath, stat, statfs } from 'node:fs/promises';
import { makeFolders } from '../lib/make-folders.ts';
import { fromNodeError } from './errno.ts';
import type { FileEnd, FileSystemStat, FolderEntry, PathStat } from './hang-safe.ts';

/** Calls by path in this process's own thread pool. A dead share keeps the thread; `hang-safe` makes them in a process for that. */

/** stat(2): follows symbolic links. */
export async function pathStat(path: string): Promise<PathStat> {
  try {
    const { mode, uid, gid, size, dev, ino, rdev } = await stat(path);
    return { mode, uid, gid, sizeBytes: size, dev, ino, rdev };
  } catch (error) {
    throw fromNodeError(error, `stat ${path}`);
  }
}

/** Absolute, without links in it. */
export async function realPath(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    throw fromNodeError(error, `resolve ${path}`);
  }
}

export async function fileSystemStat(path: string): Promise<FileSystemStat> {
  try {
    const { type, bsize, blocks, bfree, bavail, files, ffree } = await statfs(path);
    return {
      type,
      totalBytes: blocks * bsize,
      freeBytes: bfree * bsize,
      availableBytes: bavail * bsize,
      inodes: files,
      freeInodes: ffree,
    };
  } catch (error) {
    throw fromNodeError(error, `statfs ${path}`);
  }
}

export async function fileEnd(path: string, bytes: number): Promise<FileEnd> {
  try {
    const { bsize, bfree } = await statfs(path);
    const found = await stat(path);
    const freeBytes = bfree * bsize;
    // Opening a pipe would make a reader of us.
    if (!found.isFile()) return { isFile: false, lastBytes: [], freeBytes };
    await using file = await open(path, 'r');
    const { size } = await file.stat();
    const length = Math.min(bytes, size);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, size - length);
    return { isFile: true, lastBytes: [...buffer.subarray(0, bytesRead)], freeBytes };
  } catch (error) {
    throw fromNodeError(error, `read the end of ${path}`);
  }
}

/** With those above it; there already is a success. */
export async function makeFolder(path: string, mode: number): Promise<void> {
  try {
    await makeFolders(path, mode);
  } catch (error) {
    throw fromNodeError(error, `mkdir ${path}`);
  }
}

/** Empty; one that is there already is a success and stays as it is. Its folder is not made. */
export async function makeFile(path: string, mode: number): Promise<void> {
  try {
    const file = await open(path, 'a', mode);
    await file.close();
  } catch (error) {
    throw fromNodeError(error, `create ${path}`);
  }
}

export async function listFolder(path: string): Promise<FolderEntry[]> {
  try {
    const entries = await readdir(path, { withFileTypes: true });
    return entries.map((entry) => ({
      name: entry.name,
      kind: entry.isDirectory() ? 'folder' : entry.isCharacterDevice() || entry.isBlockDevice() ? 'device' : 'other',
    }));
  } catch (error) {
    throw fromNodeError(error, `read the folder ${path}`);
  }
}
