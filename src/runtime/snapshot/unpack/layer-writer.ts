import { ftruncateSync, writeSync } from 'node:fs';
import type { GantryError } from '../../../lib/errors.ts';
import { errnoOf, invalidArgument, messageOf, withContext } from '../../../lib/errors.ts';
import { O, RESOLVE, S } from '../../../linux/kernel-constants.ts';
import type { FileSyscalls } from '../../../linux/syscalls.ts';
import { displayName, type TarEntry, type TarTime } from '../tar/tar-entry.ts';
import type { TarSink } from '../tar/tar-parser.ts';
import { entryMeaning, entryPath, type EntryPath } from './entry-path.ts';
import { XattrWriter } from './entry-xattrs.ts';
import type { LayerTree } from './layer-tree.ts';
import { isDirectory, isWhiteout, joined, pathArgument } from './layer-tree.ts';
import type { UnpackBudget } from './unpack-limits.ts';

export interface LayerFacts {
  /** Directories (display names are the caller's affair: these are byte strings) that no member describes. */
  readonly impliedDirectories: readonly string[];
  /** The layer hides all below it. overlayfs does not honour the mark on a layer's root, so it is told apart. */
  readonly opaqueRoot: boolean;
  /** Extended attributes that this file system or kernel does not take, and overlayfs's own: left out. */
  readonly skippedXattrs: readonly string[];
}

const CREATE_FILE = {
  flags: O.WRONLY | O.CREAT | O.EXCL | O.NOFOLLOW,
  mode: 0o600,
  resolve: RESOLVE.BENEATH | RESOLVE.NO_SYMLINKS | RESOLVE.NO_XDEV,
};

/** errno values that say "this archive is wrong", not "this machine is". */
const ARCHIVE_AT_FAULT: ReadonlySet<string> = new Set([
  ...['ENOENT', 'ENOTDIR', 'EEXIST', 'EISDIR', 'ELOOP', 'ENAMETOOLONG', 'EINVAL', 'EXDEV', 'EMLINK'],
  // A hole that no file system here can have.
  'EFBIG',
]);

interface OpenFile {
  readonly fd: number;
  readonly parent: number;
  readonly path: EntryPath;
  readonly entry: TarEntry;
  /** Where the next piece goes. */
  position: number;
}

/**
 * Carries out a layer's members below a directory, in overlayfs's terms. Members may come in any order and more than
 * once; the last one of a name stands, a directory over a directory merges.
 */
export class LayerWriter implements TarSink {
  readonly #sys: FileSyscalls;
  readonly #tree: LayerTree;
  readonly #budget: UnpackBudget;
  readonly #xattrs: XattrWriter;
  /** Set at the very end: every member inside a directory changes its time. */
  readonly #directoryTimes = new Map<string, TarTime>();
  #file: OpenFile | undefined;
  #opaqueRoot = false;

  constructor(sys: FileSyscalls, tree: LayerTree, budget: UnpackBudget) {
    this.#sys = sys;
    this.#tree = tree;
    this.#budget = budget;
    this.#xattrs = new XattrWriter(sys);
  }

  entry(entry: TarEntry): void {
    this.#budget.addEntry(entry.storedBytes ?? entry.size);
    try {
      this.#place(entry);
    } catch (error) {
      throw blame(entry, error);
    }
  }

  data(piece: Buffer): void {
    const file = this.#file;
    if (file === undefined) return; // the content of a whiteout: none in practice, ignored by every reader
    let written = 0;
    while (written < piece.length) {
      written += writeSync(file.fd, piece, written, piece.length - written, file.position + written);
    }
    file.position += piece.length;
  }

  hole(bytes: number): void {
    if (this.#file !== undefined) this.#file.position += bytes;
  }

  fileEnd(): void {
    const file = this.#file;
    if (file === undefined) return;
    const { fd, parent, path, entry } = file;
    try {
      const name = pathArgument(path.name);
      // What ends in a hole has not got its size yet.
      if (entry.storedBytes !== undefined) ftruncateSync(fd, entry.size);
      // In this order: a change of owner clears set-uid and capabilities, a write would change the time.
      this.#sys.fchownat(parent, name, entry.uid, entry.gid);
      this.#sys.fchmod(fd, entry.mode);
      this.#xattrs.setOnFd(fd, entry.xattrs);
      this.#sys.utimensat(parent, name, timesOf(entry.mtime));
    } catch (error) {
      throw blame(entry, error);
    } finally {
      this.closeFile();
    }
  }

  /** After the last member: what a directory has only once nothing more comes into it. */
  finish(): LayerFacts {
    this.#xattrs.setDeferred((path) => this.#tree.openDirectory(path));
    for (const [path, time] of this.#directoryTimes) {
      const { parent, name } = path === '' ? { parent: '', name: '.' } : entryPath(path);
      const fd = this.#tree.existingDirectory(parent);
      const there = fd === undefined ? undefined : this.#tree.stat(fd, name);
      if (fd === undefined || there === undefined || !isDirectory(there)) continue; // replaced since
      this.#sys.utimensat(fd, pathArgument(name), timesOf(time));
    }
    return {
      impliedDirectories: [...this.#tree.implied],
      opaqueRoot: this.#opaqueRoot,
      skippedXattrs: [...this.#xattrs.skipped],
    };
  }

  /** Also on failure: a file that was being written is left as it is, in a directory that is thrown away. */
  closeFile(): void {
    if (this.#file !== undefined) this.#sys.close(this.#file.fd);
    this.#file = undefined;
  }

  #place(entry: TarEntry): void {
    const path = entryPath(entry.path);
    const meaning = entryMeaning(path);
    switch (meaning.kind) {
      case 'ignored':
        return;
      case 'opaque':
        this.#tree.directory(path.parent);
        if (path.parent === '') this.#opaqueRoot = true;
        this.#tree.setOpaque(path.parent);
        return;
      case 'whiteout':
        this.#tree.makeWhiteout(path.parent, meaning.name);
        return;
      case 'plain':
        if (path.name === '') this.#placeRoot(entry);
        else this.#placeMember(entry, path);
    }
  }

  #placeRoot(entry: TarEntry): void {
    if (entry.type !== 'directory') throw invalidArgument(`is a ${entry.type} in place of the root directory`);
    this.#sys.fchownat(this.#tree.rootFd, '.', entry.uid, entry.gid);
    this.#sys.fchmod(this.#tree.rootFd, entry.mode);
    this.#describeDirectory(entry, '', this.#tree.rootFd, '.');
  }

  #placeMember(entry: TarEntry, path: EntryPath): void {
    const parent = this.#tree.directory(path.parent);
    const name = pathArgument(path.name);
    switch (entry.type) {
      case 'file':
        this.#replacing(parent, path, () => {
          this.#file = { fd: this.#sys.openat2(parent, name, CREATE_FILE), parent, path, entry, position: 0 };
        });
        return;
      case 'directory':
        this.#placeDirectory(entry, parent, path);
        return;
      case 'link':
        this.#placeHardLink(entry, path);
        return;
      case 'symlink':
        if (entry.linkPath === '') throw invalidArgument('is a symbolic link to nothing');
        this.#replacing(parent, path, () => {
          this.#sys.symlinkat(pathArgument(entry.linkPath), parent, name);
        });
        this.#describe(entry, parent, path);
        return;
      case 'fifo':
      case 'character-device':
      case 'block-device':
        this.#replacing(parent, path, () => {
          const device = { major: entry.deviceMajor, minor: entry.deviceMinor };
          this.#sys.mknodat(parent, name, NODE_TYPES[entry.type as keyof typeof NODE_TYPES] | 0o600, device);
        });
        this.#describe(entry, parent, path);
    }
  }

  #placeDirectory(entry: TarEntry, parent: number, path: EntryPath): void {
    const full = joined(path.parent, path.name);
    const name = pathArgument(path.name);
    try {
      this.#sys.mkdirat(parent, name, entry.mode);
    } catch (error) {
      if (errnoOf(error) !== 'EEXIST') throw error;
      const there = this.#tree.stat(parent, path.name);
      if (there !== undefined && isDirectory(there)) {
        this.#sys.fchmodat(parent, name, entry.mode);
      } else {
        this.#tree.clear(parent, full, path.name);
        this.#sys.mkdirat(parent, name, entry.mode);
        // Deleted below and made anew here: nothing from below shows in it.
        if (there !== undefined && isWhiteout(there)) this.#tree.setOpaque(full);
      }
    }
    this.#sys.fchownat(parent, name, entry.uid, entry.gid);
    this.#describeDirectory(entry, full, parent, path.name);
  }

  #describeDirectory(entry: TarEntry, full: string, parent: number, name: string): void {
    this.#tree.implied.delete(full);
    this.#xattrs.setOnDirectory(parent, name, full, entry.xattrs);
    this.#directoryTimes.delete(full);
    this.#directoryTimes.set(full, entry.mtime);
  }

  /** Both names are resolved inside the layer, and only a file of this layer can be the target. */
  #placeHardLink(entry: TarEntry, path: EntryPath): void {
    const target = entryPath(entry.linkPath);
    const missing = (): GantryError =>
      invalidArgument(`is a hard link to ${displayName(entry.linkPath)}, which is not in the layer`);
    const full = joined(path.parent, path.name);
    if (target.name === '' || joined(target.parent, target.name) === full) throw missing();
    const from = this.#tree.existingDirectory(target.parent);
    // After the target's: opening one may close the other, and only the last one is sure to be open.
    const there = from === undefined ? undefined : this.#tree.stat(from, target.name);
    if (from === undefined || there === undefined) throw missing();
    if (isDirectory(there)) throw invalidArgument(`is a hard link to the directory ${displayName(entry.linkPath)}`);
    const to = this.#tree.directory(path.parent);
    const link = (): void => {
      const source = this.#tree.existingDirectory(target.parent);
      if (source === undefined) throw missing();
      this.#sys.linkat(source, pathArgument(target.name), to, pathArgument(path.name), 0);
    };
    const replaced = this.#tree.stat(to, path.name);
    if (replaced !== undefined && replaced.ino === there.ino) return; // linked already, under whatever name
    this.#replacing(to, path, link);
  }

  /** Runs `create`; when the name is taken, takes it away and runs `create` once more. */
  #replacing(parent: number, path: EntryPath, create: () => void): void {
    try {
      create();
    } catch (error) {
      if (errnoOf(error) !== 'EEXIST') throw error;
      this.#tree.clear(parent, joined(path.parent, path.name), path.name);
      create();
    }
  }

  #describe(entry: TarEntry, parent: number, path: EntryPath): void {
    const name = pathArgument(path.name);
    this.#sys.fchownat(parent, name, entry.uid, entry.gid);
    if (entry.type !== 'symlink') this.#sys.fchmodat(parent, name, entry.mode);
    this.#xattrs.setOnName(parent, path.name, entry.xattrs);
    this.#sys.utimensat(parent, name, timesOf(entry.mtime));
  }
}

const NODE_TYPES = { fifo: S.IFIFO, 'character-device': S.IFCHR, 'block-device': S.IFBLK } as const;

const LARGEST_TIME_SECONDS = 2 ** 33;

function timesOf({ seconds, nanoseconds }: TarTime): { atimeNs: bigint; mtimeNs: bigint } {
  // What no file system can keep is cut, not refused: a date is no reason to reject an image.
  const kept = Math.min(Math.max(seconds, -(2 ** 31)), LARGEST_TIME_SECONDS);
  const ns = BigInt(kept) * 1_000_000_000n + BigInt(nanoseconds);
  return { atimeNs: ns, mtimeNs: ns };
}

function blame(entry: TarEntry, error: unknown): GantryError {
  const prefix = `layer member ${displayName(entry.path)}`;
  const errno = errnoOf(error);
  if (errno === undefined || !ARCHIVE_AT_FAULT.has(errno)) return withContext(prefix, error);
  return invalidArgument(`${prefix}: ${messageOf(error)}`, { cause: error, details: { errno } });
}
