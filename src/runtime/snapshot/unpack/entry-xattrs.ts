import { errnoOf } from '../../../lib/errors.ts';
import type { FileSyscalls } from '../../../linux/syscalls.ts';
import type { TarXattr } from '../tar/tar-entry.ts';

/**
 * overlayfs reads these on the layers below: `trusted.overlay.redirect` from an archive would graft one part of the
 * image onto another, `metacopy` would show another file's data. Only Gantry writes them.
 */
const OVERLAY_OWN = /^(?:trusted|user)\.overlay\./;

/** A directory's default ACL would be inherited by what is unpacked into it, so it is set when all is there. */
const INHERITED = 'system.posix_acl_default';

/** This file system, kernel or kind of file does not take the attribute: the file is still the file. */
const NOT_TAKEN: ReadonlySet<string> = new Set(['EOPNOTSUPP', 'ENOTSUP', 'EPERM']);

/** Sets members' extended attributes, and notes the names of those that are left out. */
export class XattrWriter {
  readonly #sys: FileSyscalls;
  readonly #deferred = new Map<string, readonly TarXattr[]>();
  readonly skipped = new Set<string>();

  constructor(sys: FileSyscalls) {
    this.#sys = sys;
  }

  setOnFd(fd: number, xattrs: readonly TarXattr[]): void {
    for (const { name, value } of xattrs) {
      this.#set(name, (text) => {
        this.#sys.fsetxattr(fd, text, value);
      });
    }
  }

  /** Of a symbolic link, device or fifo, which can not be opened. `parent` pins where the name lies. */
  setOnName(parent: number, name: string, xattrs: readonly TarXattr[]): void {
    if (xattrs.length === 0) return;
    const path = Buffer.concat([Buffer.from(`/proc/self/fd/${String(parent)}/`), Buffer.from(name, 'latin1')]);
    for (const { name: attribute, value } of xattrs) {
      this.#set(attribute, (text) => {
        this.#sys.lsetxattr(path, text, value);
      });
    }
  }

  setOnDirectory(parent: number, name: string, fullPath: string, xattrs: readonly TarXattr[]): void {
    if (xattrs.length === 0) return;
    const inherited = xattrs.filter((xattr) => xattr.name === INHERITED);
    if (inherited.length > 0) this.#deferred.set(fullPath, inherited);
    this.setOnName(
      parent,
      name,
      xattrs.filter((xattr) => xattr.name !== INHERITED),
    );
  }

  /** What had to wait for the last member. */
  setDeferred(openDirectory: (path: string) => number): void {
    for (const [path, xattrs] of this.#deferred) {
      let fd: number;
      try {
        fd = openDirectory(path);
      } catch (error) {
        if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') continue; // replaced since
        throw error;
      }
      try {
        this.setOnFd(fd, xattrs);
      } finally {
        this.#sys.close(fd);
      }
    }
    this.#deferred.clear();
  }

  #set(name: string, set: (text: string) => void): void {
    const text = Buffer.from(name, 'latin1').toString('utf8');
    if (OVERLAY_OWN.test(text)) {
      this.skipped.add(text);
      return;
    }
    try {
      set(text);
    } catch (error) {
      if (!NOT_TAKEN.has(errnoOf(error) ?? '')) throw error;
      this.skipped.add(text);
    }
  }
}
