import { constants } from 'node:os';
import { normalize } from 'node:path';
import type { Op } from '../lib/abort.ts';
import { waitingFor } from '../lib/waits.ts';
import { fileEnd, listFolder, makeFile, makeFolder, pathStat, realPath } from './file-look.ts';
import type { FileEnd, FolderEntry, HangSafe, PathStat } from './hang-safe.ts';
import { cPath } from './file-syscalls.ts';
import { AT_FDCWD, O, RESOLVE } from './kernel-constants.ts';
import { callAsync, libc, SYS } from './libc.ts';
import { readMountinfo } from './mountinfo.ts';
import { pathIsLocal } from './mounts.ts';
import { readNamedFile } from './read-named-file.ts';

type Apart = Pick<HangSafe, 'stat' | 'realpath' | 'mkdir' | 'makeFile' | 'list' | 'readFile' | 'fileEnd'>;

/**
 * Looks at paths of the host that somebody else has chosen: on a dead share such a call never returns. It is made in a helper process,
 * unless the way there leads through this machine's own file systems only. Errors by errno.
 */
export class HostFiles {
  readonly #hangSafe: Apart;

  constructor(hangSafe: Apart) {
    this.#hangSafe = hangSafe;
  }

  /** stat(2): follows symbolic links. */
  async stat(op: Op, path: string): Promise<PathStat> {
    return await this.#look(op, path, pathStat, () => this.#hangSafe.stat(op, path));
  }

  /** Absolute, without links in it. */
  async realpath(op: Op, path: string): Promise<string> {
    return await this.#look(op, path, realPath, () => this.#hangSafe.realpath(op, path));
  }

  async list(op: Op, path: string): Promise<FolderEntry[]> {
    return await this.#look(op, path, listFolder, () => this.#hangSafe.list(op, path));
  }

  /** The text of a regular file of at most `maxBytes`; see {@link readNamedFile}. */
  async readFile(op: Op, path: string, maxBytes: number): Promise<string> {
    const here = (): Promise<string> => readNamedFile(path, maxBytes);
    return await this.#look(op, path, here, () => this.#hangSafe.readFile(op, path, maxBytes));
  }

  /** The last bytes of a file and the room for more. Follows symbolic links. */
  async fileEnd(op: Op, path: string, bytes: number): Promise<FileEnd> {
    const here = (): Promise<FileEnd> => fileEnd(path, bytes);
    return await this.#look(op, path, here, () => this.#hangSafe.fileEnd(op, path, bytes));
  }

  /** With those above it; there already is a success. */
  async mkdir(op: Op, path: string, mode: number): Promise<void> {
    const here = (): Promise<void> => makeFolder(path, mode);
    await this.#look(op, path, here, () => this.#hangSafe.mkdir(op, path, mode));
  }

  /** Empty; one that is there already is a success and stays as it is. Its folder is not made. */
  async makeFile(op: Op, path: string, mode: number): Promise<void> {
    const here = (): Promise<void> => makeFile(path, mode);
    await this.#look(op, path, here, () => this.#hangSafe.makeFile(op, path, mode));
  }

  async #look<T>(op: Op, path: string, here: (path: string) => Promise<T>, apart: () => Promise<T>): Promise<T> {
    op.signal.throwIfAborted();
    if (await staysHere(path)) return await here(path);
    return await waitingFor(op, `the file system of ${path}`, apart);
  }
}

/** A link leads anywhere, so a path with one does not count; what is missing of a path has no links either. */
async function staysHere(path: string): Promise<boolean> {
  // As if for something in it: the mount that may be on the path itself counts, too.
  if (!pathIsLocal(await readMountinfo(), `${normalize(path)}/.`)) return false;
  const how = new BigUint64Array([BigInt(O.PATH | O.CLOEXEC), 0n, BigInt(RESOLVE.NO_SYMLINKS)]);
  const bytes = new Uint8Array(how.buffer);
  const { result, errno } = await callAsync(libc.openat2, SYS.openat2, AT_FDCWD, cPath(path), bytes, bytes.length);
  if (result < 0) return errno === constants.errno.ENOENT;
  libc.close(result);
  return true;
}
