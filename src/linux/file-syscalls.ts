import { invalidArgument } from '../lib/errors.ts';
import { errnoError, errnoName } from './errno.ts';
import { AT, O, STATX, STATX_ATTR_MOUNT_ROOT } from './kernel-constants.ts';
import { libc, SYS, type CFunction } from './libc.ts';

/** A path or one name. Bytes where the name need not be UTF-8; a terminating NUL is added. */
export type Path = string | Uint8Array;

export interface OpenHow {
  /** `O.*`; O_CLOEXEC is always added. */
  readonly flags: number;
  /** For O_CREAT only. The process's umask applies: follow with fchmod where the exact mode matters. */
  readonly mode?: number;
  /** `RESOLVE.*` */
  readonly resolve?: number;
}

export interface StatxResult {
  readonly mode: number;
  readonly nlink: number;
  readonly uid: number;
  readonly gid: number;
  readonly ino: bigint;
  readonly sizeBytes: bigint;
  readonly blocks512: bigint;
  readonly mtimeNs: bigint;
  readonly dev: { readonly major: number; readonly minor: number };
  readonly rdev: { readonly major: number; readonly minor: number };
  /** 0 when the kernel (before 5.8) cannot say. Decides what is one mount: a bind mount of the same device differs here. */
  readonly mountId: bigint;
  /** The file is the root of a mount. */
  readonly mountRoot: boolean;
}

export interface StatfsResult {
  readonly type: number;
  readonly blockSizeBytes: number;
  readonly blocks: bigint;
  readonly freeBlocks: bigint;
  readonly availableBlocks: bigint;
  readonly files: bigint;
  readonly freeFiles: bigint;
}

/**
 * Cheap calls on directory descriptors, all synchronous: for workers and helper processes, not for the main thread
 * (a local disk may be slow, too). They throw a GantryError with `details.errno`, its kind by linux/errno.
 */
export interface FileSyscalls {
  /** A descriptor, close-on-exec. */
  openat2(dirfd: number, path: Path, how: OpenHow): number;
  close(fd: number): void;
  /** Mode exactly as given, whatever the umask. */
  mkdirat(dirfd: number, path: Path, mode: number): void;
  /** Mode exactly as given, whatever the umask. `device` for S_IFCHR and S_IFBLK; a whiteout is S_IFCHR 0/0. */
  mknodat(dirfd: number, path: Path, mode: number, device?: { readonly major: number; readonly minor: number }): void;
  linkat(oldDirfd: number, oldPath: Path, newDirfd: number, newPath: Path, flags?: number): void;
  symlinkat(target: Path, dirfd: number, path: Path): void;
  unlinkat(dirfd: number, path: Path, flags?: number): void;
  renameat2(oldDirfd: number, oldPath: Path, newDirfd: number, newPath: Path, flags?: number): void;
  /** Does not follow a symbolic link unless `flags` is 0. */
  fchownat(dirfd: number, path: Path, uid: number, gid: number, flags?: number): void;
  /** Follows a symbolic link: the caller knows that there is none. */
  fchmodat(dirfd: number, path: Path, mode: number): void;
  fchmod(fd: number, mode: number): void;
  /** Does not follow a symbolic link unless `flags` is 0. */
  utimensat(
    dirfd: number,
    path: Path,
    times: { readonly atimeNs: bigint; readonly mtimeNs: bigint },
    flags?: number,
  ): void;
  lsetxattr(path: Path, name: string, value: Uint8Array): void;
  fsetxattr(fd: number, name: string, value: Uint8Array): void;
  /** Undefined when there is none. */
  lgetxattr(path: Path, name: string): Uint8Array | undefined;
  llistxattr(path: Path): string[];
  lremovexattr(path: Path, name: string): void;
  /** Asks the server of a network file system nothing and triggers no automount. */
  statx(dirfd: number, path: Path, flags?: number): StatxResult;
  fstatfs(fd: number): StatfsResult;
  syncfs(fd: number): void;
}

const XATTR_BUFFER_BYTES = 65_536;
const NS = 1_000_000_000n;

/** A path as C takes it. A NUL inside would cut the name short and make us act on another file. */
export function cPath(path: Path): string {
  if (typeof path === 'string') {
    if (path.includes('\0')) throw invalidArgument('a path must not contain a NUL byte');
    return path;
  }
  if (path.includes(0)) throw invalidArgument('a path must not contain a NUL byte');
  const terminated = new Uint8Array(path.length + 1);
  terminated.set(path);
  // koffi takes bytes wherever C takes a string.
  return terminated as unknown as string;
}

/** For messages. */
export function showPath(path: Path): string {
  return typeof path === 'string' ? path : Buffer.from(path).toString('utf8');
}

function check(result: number | bigint, call: string, path: Path): number {
  if (result < 0) throw errnoError(libc.errno(), `${call} ${showPath(path)}`, { details: { path: showPath(path) } });
  return Number(result);
}

export function makedev(major: number, minor: number): bigint {
  const [a, b] = [BigInt(major), BigInt(minor)];
  return ((a & 0xfffff000n) << 32n) | ((a & 0xfffn) << 8n) | ((b & 0xffffff00n) << 12n) | (b & 0xffn);
}

export function realFileSyscalls(): FileSyscalls {
  const how = Buffer.alloc(24);
  const stat = Buffer.alloc(256);
  const fsStat = Buffer.alloc(120);
  const times = Buffer.alloc(32);
  const fill = (
    fn: CFunction<[string, string, Uint8Array, number]>,
    path: Path,
    name: string,
  ): Uint8Array | undefined => {
    const buffer = Buffer.alloc(XATTR_BUFFER_BYTES);
    const size = fn(cPath(path), name, buffer, buffer.length);
    if (size < 0 && errnoName(libc.errno()) === 'ENODATA') return undefined;
    return buffer.subarray(0, check(size, `lgetxattr ${name}`, path));
  };
  return {
    openat2(dirfd, path, { flags, mode = 0, resolve = 0 }) {
      how.writeBigUInt64LE(BigInt(flags | O.CLOEXEC), 0);
      how.writeBigUInt64LE(BigInt(mode), 8);
      how.writeBigUInt64LE(BigInt(resolve), 16);
      return check(libc.openat2(SYS.openat2, dirfd, cPath(path), how, how.length), 'open', path);
    },
    close(fd) {
      libc.close(fd);
    },
    mkdirat(dirfd, path, mode) {
      check(libc.mkdirat(dirfd, cPath(path), mode), 'mkdir', path);
      check(libc.fchmodat(dirfd, cPath(path), mode, 0), 'chmod', path);
    },
    mknodat(dirfd, path, mode, device = { major: 0, minor: 0 }) {
      check(libc.mknodat(dirfd, cPath(path), mode, makedev(device.major, device.minor)), 'mknod', path);
      check(libc.fchmodat(dirfd, cPath(path), mode & 0o7777, 0), 'chmod', path);
    },
    linkat(oldDirfd, oldPath, newDirfd, newPath, flags = 0) {
      check(libc.linkat(oldDirfd, cPath(oldPath), newDirfd, cPath(newPath), flags), 'link', newPath);
    },
    symlinkat(target, dirfd, path) {
      check(libc.symlinkat(cPath(target), dirfd, cPath(path)), 'symlink', path);
    },
    unlinkat(dirfd, path, flags = 0) {
      check(libc.unlinkat(dirfd, cPath(path), flags), flags & AT.REMOVEDIR ? 'rmdir' : 'unlink', path);
    },
    renameat2(oldDirfd, oldPath, newDirfd, newPath, flags = 0) {
      check(libc.renameat2(oldDirfd, cPath(oldPath), newDirfd, cPath(newPath), flags), 'rename', oldPath);
    },
    fchownat(dirfd, path, uid, gid, flags = AT.SYMLINK_NOFOLLOW) {
      check(libc.fchownat(dirfd, cPath(path), uid, gid, flags), 'chown', path);
    },
    fchmodat(dirfd, path, mode) {
      check(libc.fchmodat(dirfd, cPath(path), mode, 0), 'chmod', path);
    },
    fchmod(fd, mode) {
      check(libc.fchmod(fd, mode), 'fchmod', `fd ${String(fd)}`);
    },
    utimensat(dirfd, path, { atimeNs, mtimeNs }, flags = AT.SYMLINK_NOFOLLOW) {
      for (const [at, ns] of [atimeNs, mtimeNs].entries()) {
        // Before 1970 the seconds are negative, the nanoseconds never.
        const rest = ((ns % NS) + NS) % NS;
        times.writeBigInt64LE((ns - rest) / NS, at * 16);
        times.writeBigInt64LE(rest, at * 16 + 8);
      }
      check(libc.utimensat(dirfd, cPath(path), times, flags), 'utimensat', path);
    },
    lsetxattr(path, name, value) {
      check(libc.lsetxattr(cPath(path), name, value, value.length, 0), `lsetxattr ${name}`, path);
    },
    fsetxattr(fd, name, value) {
      check(libc.fsetxattr(fd, name, value, value.length, 0), `fsetxattr ${name}`, `fd ${String(fd)}`);
    },
    lgetxattr(path, name) {
      return fill(libc.lgetxattr, path, name);
    },
    llistxattr(path) {
      const buffer = Buffer.alloc(XATTR_BUFFER_BYTES);
      const size = check(libc.llistxattr(cPath(path), buffer, buffer.length), 'llistxattr', path);
      return buffer.toString('utf8', 0, size).split('\0').slice(0, -1);
    },
    lremovexattr(path, name) {
      check(libc.lremovexattr(cPath(path), name), `lremovexattr ${name}`, path);
    },
    statx(dirfd, path, flags = AT.SYMLINK_NOFOLLOW) {
      const always = AT.NO_AUTOMOUNT | AT.STATX_DONT_SYNC;
      check(libc.statx(dirfd, cPath(path), flags | always, STATX.BASIC_STATS | STATX.MNT_ID, stat), 'statx', path);
      return decodeStatx(stat);
    },
    fstatfs(fd) {
      check(libc.fstatfs(fd, fsStat), 'fstatfs', `fd ${String(fd)}`);
      return decodeStatfs(fsStat);
    },
    syncfs(fd) {
      check(libc.syncfs(fd), 'syncfs', `fd ${String(fd)}`);
    },
  };
}

/** struct statx of linux/stat.h. */
function decodeStatx(b: Buffer): StatxResult {
  return {
    nlink: b.readUInt32LE(16),
    uid: b.readUInt32LE(20),
    gid: b.readUInt32LE(24),
    mode: b.readUInt16LE(28),
    ino: b.readBigUInt64LE(32),
    sizeBytes: b.readBigUInt64LE(40),
    blocks512: b.readBigUInt64LE(48),
    mtimeNs: b.readBigInt64LE(112) * NS + BigInt(b.readUInt32LE(120)),
    rdev: { major: b.readUInt32LE(128), minor: b.readUInt32LE(132) },
    dev: { major: b.readUInt32LE(136), minor: b.readUInt32LE(140) },
    mountId: (b.readUInt32LE(0) & STATX.MNT_ID) === 0 ? 0n : b.readBigUInt64LE(144),
    mountRoot: (b.readBigUInt64LE(8) & STATX_ATTR_MOUNT_ROOT) !== 0n,
  };
}

/** struct statfs of the 64-bit architectures. */
export function decodeStatfs(b: Buffer): StatfsResult {
  return {
    type: Number(b.readBigUInt64LE(0) & 0xffffffffn),
    blockSizeBytes: Number(b.readBigUInt64LE(8)),
    blocks: b.readBigUInt64LE(16),
    freeBlocks: b.readBigUInt64LE(24),
    availableBlocks: b.readBigUInt64LE(32),
    files: b.readBigUInt64LE(40),
    freeFiles: b.readBigUInt64LE(48),
  };
}
