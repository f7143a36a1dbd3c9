import { errnoOf, invalidArgument } from '../../../lib/errors.ts';
import { AT, AT_FDCWD, O, RESOLVE, S } from '../../../linux/kernel-constants.ts';
import type { FileSyscalls, Path, StatxResult } from '../../../linux/syscalls.ts';
import { displayName } from '../tar/tar-entry.ts';

/** overlayfs's own marks: a directory that hides what lies below it, and a name that is deleted. */
export const OPAQUE_XATTR = 'trusted.overlay.opaque';
const OPAQUE_VALUE = Buffer.from('y');
const WHITEOUT_MODE = S.IFCHR;

/** Of a directory that the layer implies (`a` of `a/b`) but does not hold. */
const IMPLIED_DIRECTORY_MODE = 0o755;

/** Directories kept open: an archive is in depth-first order, so a few parents serve nearly every member. */
const MAX_OPEN_DIRECTORIES = 64;

/** Never out of the layer, through no /proc link, into no other mount. */
const CONTAINED = RESOLVE.IN_ROOT | RESOLVE.NO_MAGICLINKS | RESOLVE.NO_XDEV;
const OPEN_PARENT = { flags: O.PATH | O.DIRECTORY, resolve: CONTAINED };

/** What was made a moment ago, by one name. */
const OPEN_NEW = {
  flags: O.PATH | O.DIRECTORY | O.NOFOLLOW,
  resolve: RESOLVE.BENEATH | RESOLVE.NO_SYMLINKS | RESOLVE.NO_XDEV,
};

const NOT_ASCII = /[^\x20-\x7e]/;

/** A byte string as an argument of a system call. */
export function pathArgument(name: string): Path {
  return NOT_ASCII.test(name) ? Buffer.from(name, 'latin1') : name;
}

export function isWhiteout(stat: StatxResult): boolean {
  return (stat.mode & S.IFMT) === S.IFCHR && stat.rdev.major === 0 && stat.rdev.minor === 0;
}

export function isDirectory(stat: StatxResult): boolean {
  return (stat.mode & S.IFMT) === S.IFDIR;
}

/**
 * The directory that a layer is unpacked into. Every directory is reached by openat2 with the layer as the root of
 * resolution: a symbolic link that points out of the layer, an absolute one and `..` all end inside it, so what
 * an archive says decides where in the layer something is written, never whether.
 * Paths and names are byte strings. Synchronous: for the worker only.
 */
export class LayerTree implements Disposable {
  readonly #sys: FileSyscalls;
  readonly #root: number;
  readonly #open = new Map<string, number>();
  #latest: string | undefined;
  /** Directories that exist because something lies in them; the layer itself says nothing of their mode and owner. */
  readonly implied = new Set<string>(['']);

  constructor(sys: FileSyscalls, directory: string) {
    this.#sys = sys;
    this.#root = sys.openat2(AT_FDCWD, directory, { flags: O.DIRECTORY | O.NOFOLLOW });
  }

  get rootFd(): number {
    return this.#root;
  }

  [Symbol.dispose](): void {
    this.forgetOpenDirectories();
    this.#sys.close(this.#root);
  }

  /**
   * A descriptor (O_PATH) of the directory, made with its parents if it is not there. It stays open until many other
   * directories have been asked for, or `clear`.
   */
  directory(path: string): number {
    return this.#known(path) ?? this.#remember(path, this.#tryOpen(path) ?? this.#make(path));
  }

  /** The same, but undefined when there is no such directory. */
  existingDirectory(path: string): number | undefined {
    const known = this.#known(path);
    if (known !== undefined) return known;
    const fd = this.#tryOpen(path);
    return fd === undefined ? undefined : this.#remember(path, fd);
  }

  /** For calls that O_PATH does not allow. The caller closes it. */
  openDirectory(path: string): number {
    return this.#sys.openat2(this.#root, path === '' ? '.' : pathArgument(path), {
      flags: O.DIRECTORY,
      resolve: CONTAINED,
    });
  }

  stat(parent: number, name: string): StatxResult | undefined {
    try {
      return this.#sys.statx(parent, pathArgument(name));
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return undefined;
      throw error;
    }
  }

  /** Hides what the layers below have in this directory. */
  setOpaque(path: string): void {
    const fd = this.openDirectory(path);
    try {
      this.#sys.fsetxattr(fd, OPAQUE_XATTR, OPAQUE_VALUE);
    } finally {
      this.#sys.close(fd);
    }
  }

  /** Hides `name` of the layers below. What this very layer puts there stays (the OCI's rule). */
  makeWhiteout(parentPath: string, name: string): void {
    const parent = this.directory(parentPath);
    try {
      this.#sys.mknodat(parent, pathArgument(name), WHITEOUT_MODE);
    } catch (error) {
      if (errnoOf(error) !== 'EEXIST') throw error;
      const there = this.stat(parent, name);
      if (there !== undefined && isDirectory(there)) this.setOpaque(joined(parentPath, name));
    }
  }

  /**
   * Makes room for a member that replaces an earlier one of the same name. Tells what was there.
   * @throws InvalidArgument for a directory that is not empty: no tool writes such a layer, and there is one way to
   * delete a tree in Gantry, which is not this.
   */
  clear(parent: number, path: string, name: string): StatxResult | undefined {
    const there = this.stat(parent, name);
    if (there === undefined) return undefined;
    // A cached path may have led through what goes now.
    this.forgetOpenDirectories(parent);
    if (!isDirectory(there)) {
      this.#sys.unlinkat(parent, pathArgument(name), 0);
      return there;
    }
    try {
      this.#sys.unlinkat(parent, pathArgument(name), AT.REMOVEDIR);
    } catch (error) {
      if (errnoOf(error) !== 'ENOTEMPTY') throw error;
      throw invalidArgument(`replaces the directory ${displayName(path)} of the same layer, which is not empty`);
    }
    this.implied.delete(path);
    return there;
  }

  forgetOpenDirectories(except?: number): void {
    for (const [path, fd] of this.#open) {
      if (fd === except) continue;
      this.#sys.close(fd);
      this.#open.delete(path);
    }
  }

  #known(path: string): number | undefined {
    if (path === '') return this.#root;
    const fd = this.#open.get(path);
    if (fd === undefined || path === this.#latest) return fd;
    // Asked for again: the last one to be closed.
    this.#open.delete(path);
    this.#open.set(path, fd);
    this.#latest = path;
    return fd;
  }

  #remember(path: string, fd: number): number {
    if (this.#open.size >= MAX_OPEN_DIRECTORIES) {
      const oldest = this.#open.entries().next().value;
      if (oldest !== undefined) {
        this.#open.delete(oldest[0]);
        this.#sys.close(oldest[1]);
      }
    }
    this.#open.set(path, fd);
    this.#latest = path;
    return fd;
  }

  #tryOpen(path: string): number | undefined {
    try {
      return this.#sys.openat2(this.#root, pathArgument(path), OPEN_PARENT);
    } catch (error) {
      const errno = errnoOf(error);
      if (errno === 'ENOENT' || errno === 'ENOTDIR') return undefined;
      throw error;
    }
  }

  /** mkdir -p, component by component, each resolved inside the layer. */
  #make(path: string): number {
    let fd = this.#root;
    let made = '';
    let isNew = false;
    for (const name of path.split('/')) {
      made = joined(made, name);
      let next: number;
      try {
        // In a directory that is new there is nothing to find, and the way to it need not be walked again.
        const found: number | undefined = isNew ? undefined : this.#tryOpen(made);
        isNew = found === undefined;
        next = found ?? this.#makeOne(fd, made, name);
      } finally {
        if (fd !== this.#root) this.#sys.close(fd);
      }
      fd = next;
    }
    return fd;
  }

  #makeOne(parent: number, path: string, name: string): number {
    let opaque = false;
    try {
      this.#sys.mkdirat(parent, pathArgument(name), IMPLIED_DIRECTORY_MODE);
    } catch (error) {
      if (errnoOf(error) !== 'EEXIST') throw error;
      const there = this.stat(parent, name);
      // `.wh.a` and `a/b` in one layer: what was in `a` is gone, the layer's own content is not.
      opaque = there !== undefined && isWhiteout(there);
      if (!opaque) {
        throw invalidArgument(`${displayName(path)} is in the way: it is neither a directory nor a link to one`);
      }
      this.#sys.unlinkat(parent, pathArgument(name), 0);
      this.#sys.mkdirat(parent, pathArgument(name), IMPLIED_DIRECTORY_MODE);
    }
    this.implied.add(path);
    if (opaque) this.setOpaque(path);
    return this.#sys.openat2(parent, pathArgument(name), OPEN_NEW);
  }
}

export function joined(parent: string, name: string): string {
  return parent === '' ? name : `${parent}/${name}`;
}
