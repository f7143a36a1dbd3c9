import { readdirSync, readlinkSync, readSync } from 'node:fs';
import { errnoOf, GantryError, invalidArgument, notImplemented, withContext } from '../../../lib/errors.ts';
import { AT_FDCWD, O, RESOLVE, S } from '../../../linux/kernel-constants.ts';
import type { FileSyscalls, StatxResult } from '../../../linux/syscalls.ts';
import { displayName, type TarEntry, type TarEntryType, type TarXattr } from '../tar/tar-entry.ts';
import { tarEnd, tarHeader, tarPadding } from '../tar/tar-writer.ts';
import { OPAQUE_NAME, WHITEOUT_PREFIX } from './entry-path.ts';
import { joined, OPAQUE_XATTR, pathArgument } from './layer-tree.ts';

const OPEN_BELOW = { resolve: RESOLVE.BENEATH | RESOLVE.NO_SYMLINKS | RESOLVE.NO_XDEV };
const READ_BYTES = 1 << 20;
const NS = 1_000_000_000n;

/** overlayfs's own marks say nothing in a tree that stands alone. */
const LEFT_OUT_XATTR = /^(?:trusted|user)\.overlay\.|^security\.selinux$/;
const REDIRECT_XATTR = 'trusted.overlay.redirect';
/** Gone, or another kind of thing than a moment ago. */
const VANISHED: ReadonlySet<string> = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'ESTALE']);

/**
 * A directory as an archive, with `./` first, members sorted by their bytes, ids as numbers, hard links as links and
 * extended attributes: the same tree always gives the same bytes. Sockets are left out (nothing listens in an image),
 * and so is what is mounted on a directory of the tree; the directory itself stays.
 * Yields after each member and each piece of a content, so that the caller can stop it.
 * @throws InvalidArgument for a name that a layer reserves (`.wh.…`), Aborted when a file changes while it is read.
 */
export function packDirectory(sys: FileSyscalls, directory: string): Generator<Buffer> {
  return pack(sys, directory, false);
}

/**
 * The upper directory of an overlay as a layer: what was deleted in it is a `.wh.` name, as the OCI has it. It may be in use: what vanishes
 * meanwhile is left out, and a file that shrinks ends with zeros. A name that would mean a deletion is left out, too.
 * @throws NotImplemented for a directory that overlayfs has renamed by a mark of its own: a layer has no word for it.
 */
export function packChanges(sys: FileSyscalls, upper: string): Generator<Buffer> {
  return pack(sys, upper, true);
}

function* pack(sys: FileSyscalls, directory: string, isUpper: boolean): Generator<Buffer> {
  const root = sys.openat2(AT_FDCWD, directory, { flags: O.DIRECTORY });
  try {
    const packer = new DirectoryPacker(sys, sys.statx(root, '.').mountId, isUpper);
    yield* packer.directory(root, '');
    yield tarEnd();
  } finally {
    sys.close(root);
  }
}

class DirectoryPacker {
  readonly #sys: FileSyscalls;
  readonly #mountId: bigint;
  /** Of an overlay that is in use. */
  readonly #isUpper: boolean;
  /** inode -> the first path it was seen under, for files with several names. */
  readonly #linked = new Map<bigint, string>();

  constructor(sys: FileSyscalls, mountId: bigint, isUpper: boolean) {
    this.#sys = sys;
    this.#mountId = mountId;
    this.#isUpper = isUpper;
  }

  /** `fd` is the directory itself, opened for reading. */
  *directory(fd: number, path: string): Generator<Buffer> {
    const stat = this.#sys.statx(fd, '.');
    yield tarHeader(this.#entry('directory', `${path === '' ? '.' : path}/`, stat, this.#xattrs(fd, '.')));
    if (stat.mountId !== this.#mountId) return;
    if (this.#isUpper) yield* this.#marks(fd, path, stat);
    for (const child of namesIn(fd)) yield* this.#member(fd, joined(path, child), child);
  }

  *#member(parent: number, path: string, name: string): Generator<Buffer> {
    if (name.startsWith(WHITEOUT_PREFIX)) {
      if (this.#isUpper) return;
      throw invalidArgument(`${displayName(path)}: a name that begins with ".wh." means a deletion in a layer`);
    }
    try {
      yield* this.#described(parent, path, name);
    } catch (error) {
      if (this.#isUpper && VANISHED.has(errnoOf(error) ?? '')) return;
      if (error instanceof GantryError && error.kind === 'NotFound') throw changed(path);
      throw error;
    }
  }

  *#described(parent: number, path: string, name: string): Generator<Buffer> {
    const stat = this.#sys.statx(parent, pathArgument(name));
    const type = TYPES.get(stat.mode & S.IFMT);
    if (type === undefined) return; // a socket
    if (type === 'directory') {
      const fd = this.#openDirectory(parent, path, name);
      if (fd === undefined) {
        yield tarHeader(this.#entry('directory', `${path}/`, stat, []));
        return;
      }
      try {
        yield* this.directory(fd, path);
      } finally {
        this.#sys.close(fd);
      }
      return;
    }
    if (this.#isUpper && type === 'character-device' && stat.rdev.major === 0 && stat.rdev.minor === 0) {
      yield this.#whiteout(`${path.slice(0, path.length - name.length)}${WHITEOUT_PREFIX}${name}`, stat);
      return;
    }
    const first = stat.nlink > 1 ? this.#linked.get(stat.ino) : undefined;
    if (first !== undefined) {
      yield tarHeader({ ...this.#entry('link', path, stat, []), linkPath: first });
      return;
    }
    if (stat.nlink > 1) this.#linked.set(stat.ino, path);
    const entry = this.#entry(type, path, stat, this.#xattrs(parent, name));
    if (type === 'symlink') yield tarHeader({ ...entry, linkPath: linkTarget(parent, name) });
    else if (type === 'file') yield* this.#file(parent, name, entry);
    else yield tarHeader(entry);
  }

  *#file(parent: number, name: string, entry: TarEntry): Generator<Buffer> {
    yield tarHeader(entry);
    const fd = this.#sys.openat2(parent, pathArgument(name), { flags: O.RDONLY | O.NOFOLLOW, ...OPEN_BELOW });
    try {
      let left = entry.size;
      while (left > 0) {
        const piece = Buffer.allocUnsafe(Math.min(left, READ_BYTES));
        const got = readSync(fd, piece, 0, piece.length, null);
        if (got === 0 && !this.#isUpper) throw changed(entry.path);
        const taken = got === 0 ? piece.fill(0) : piece.subarray(0, got);
        left -= taken.length;
        yield taken;
      }
    } finally {
      this.#sys.close(fd);
    }
    yield tarPadding(entry.size);
  }

  /** What overlayfs says of a directory itself. */
  *#marks(fd: number, path: string, stat: StatxResult): Generator<Buffer> {
    const marked = procPath(fd, '.');
    if (this.#sys.lgetxattr(marked, REDIRECT_XATTR) !== undefined) {
      throw notImplemented(`${displayName(path)}: the directory was renamed by overlayfs, and no layer can say so`);
    }
    if (this.#sys.lgetxattr(marked, OPAQUE_XATTR) !== undefined) yield this.#whiteout(joined(path, OPAQUE_NAME), stat);
  }

  #whiteout(path: string, { mtimeNs }: StatxResult): Buffer {
    const seconds = Number(mtimeNs / NS);
    return tarHeader({
      ...{ type: 'file', path, linkPath: '', mode: 0o600, uid: 0, gid: 0, size: 0, xattrs: [] },
      ...{ mtime: { seconds, nanoseconds: 0 }, deviceMajor: 0, deviceMinor: 0 },
    });
  }

  /** Undefined when another file system is mounted on it. */
  #openDirectory(parent: number, path: string, name: string): number | undefined {
    try {
      return this.#sys.openat2(parent, pathArgument(name), { flags: O.DIRECTORY | O.NOFOLLOW, ...OPEN_BELOW });
    } catch (error) {
      if (errnoOf(error) === 'EXDEV') return undefined;
      throw withContext(displayName(path), error);
    }
  }

  #entry(type: TarEntryType, path: string, stat: StatxResult, xattrs: readonly TarXattr[]): TarEntry {
    const nanoseconds = ((stat.mtimeNs % NS) + NS) % NS;
    return {
      ...{ type, path, linkPath: '', mode: stat.mode & 0o7777, uid: stat.uid, gid: stat.gid, xattrs },
      size: type === 'file' ? Number(stat.sizeBytes) : 0,
      mtime: { seconds: Number((stat.mtimeNs - nanoseconds) / NS), nanoseconds: Number(nanoseconds) },
      deviceMajor: type.endsWith('device') ? stat.rdev.major : 0,
      deviceMinor: type.endsWith('device') ? stat.rdev.minor : 0,
    };
  }

  #xattrs(parent: number, name: string): TarXattr[] {
    const path = procPath(parent, name);
    const found: TarXattr[] = [];
    let names: string[];
    try {
      names = this.#sys.llistxattr(path);
    } catch (error) {
      if (errnoOf(error) === 'EOPNOTSUPP' || errnoOf(error) === 'ENOTSUP') return [];
      throw error;
    }
    for (const attribute of names.sort()) {
      if (LEFT_OUT_XATTR.test(attribute)) continue;
      const value = this.#sys.lgetxattr(path, attribute);
      if (value === undefined) continue;
      found.push({ name: Buffer.from(attribute, 'utf8').toString('latin1'), value: Buffer.from(value) });
    }
    return found;
  }
}

const TYPES: ReadonlyMap<number, TarEntryType> = new Map<number, TarEntryType>([
  [S.IFREG, 'file'],
  [S.IFDIR, 'directory'],
  [S.IFLNK, 'symlink'],
  [S.IFCHR, 'character-device'],
  [S.IFBLK, 'block-device'],
  [S.IFIFO, 'fifo'],
]);

function procPath(parent: number, name: string): Buffer {
  return Buffer.concat([Buffer.from(`/proc/self/fd/${String(parent)}/`), Buffer.from(name, 'latin1')]);
}

/** Byte strings in the order of their bytes. */
function namesIn(fd: number): string[] {
  const names = readdirSync(`/proc/self/fd/${String(fd)}/.`, { encoding: 'buffer' });
  return names.map((name) => name.toString('latin1')).sort();
}

function linkTarget(parent: number, name: string): string {
  return readlinkSync(procPath(parent, name), { encoding: 'buffer' }).toString('latin1');
}

function changed(path: string): GantryError {
  return new GantryError('Aborted', `${displayName(path)} changed while it was read`);
}
