/** Numbers of the kernel's interface that the same-named calls take. All are equal on x86-64 and arm64 unless noted. */

export const AT_FDCWD = -100;

export const AT = {
  SYMLINK_NOFOLLOW: 0x100,
  REMOVEDIR: 0x200,
  SYMLINK_FOLLOW: 0x400,
  NO_AUTOMOUNT: 0x800,
  EMPTY_PATH: 0x1000,
  STATX_DONT_SYNC: 0x4000,
  RECURSIVE: 0x8000,
} as const;

// O_DIRECTORY, O_NOFOLLOW and O_DIRECT are permuted on arm64.
const arm = process.arch === 'arm64';
export const O = {
  RDONLY: 0,
  WRONLY: 1,
  RDWR: 2,
  CREAT: 0o100,
  EXCL: 0o200,
  TRUNC: 0o1000,
  APPEND: 0o2000,
  NONBLOCK: 0o4000,
  DIRECTORY: arm ? 0o40000 : 0o200000,
  NOFOLLOW: arm ? 0o100000 : 0o400000,
  CLOEXEC: 0o2000000,
  PATH: 0o10000000,
} as const;

/** openat2(2) `resolve`. */
export const RESOLVE = {
  NO_XDEV: 0x01,
  NO_MAGICLINKS: 0x02,
  NO_SYMLINKS: 0x04,
  BENEATH: 0x08,
  IN_ROOT: 0x10,
} as const;

/** mount(2) flags. */
export const MS = {
  RDONLY: 1,
  NOSUID: 2,
  NODEV: 4,
  NOEXEC: 8,
  SYNCHRONOUS: 16,
  REMOUNT: 32,
  DIRSYNC: 128,
  NOSYMFOLLOW: 256,
  NOATIME: 1024,
  NODIRATIME: 2048,
  BIND: 4096,
  MOVE: 8192,
  REC: 16384,
  SILENT: 32768,
  UNBINDABLE: 1 << 17,
  PRIVATE: 1 << 18,
  SLAVE: 1 << 19,
  SHARED: 1 << 20,
  RELATIME: 1 << 21,
  STRICTATIME: 1 << 24,
} as const;

/** umount2(2) flags. */
export const UMOUNT = { FORCE: 1, DETACH: 2, EXPIRE: 4, NOFOLLOW: 8 } as const;

/** mount_setattr(2) and fsmount(2) attributes. */
export const MOUNT_ATTR = { RDONLY: 1, NOSUID: 2, NODEV: 4, NOEXEC: 8, IDMAP: 0x10_0000 } as const;

export const OPEN_TREE_CLONE = 1;
export const MOVE_MOUNT_F_EMPTY_PATH = 4;

export const STATX = { BASIC_STATS: 0x7ff, MNT_ID: 0x1000 } as const;
export const STATX_ATTR_MOUNT_ROOT = 0x2000n;

export const S = {
  IFMT: 0o170000,
  IFSOCK: 0o140000,
  IFLNK: 0o120000,
  IFREG: 0o100000,
  IFBLK: 0o060000,
  IFDIR: 0o040000,
  IFCHR: 0o020000,
  IFIFO: 0o010000,
} as const;

export const RENAME = { NOREPLACE: 1, EXCHANGE: 2, WHITEOUT: 4 } as const;

export const CLONE = { NEWNS: 0x20000, NEWUTS: 0x4000000, NEWIPC: 0x8000000, NEWNET: 0x40000000 } as const;

export const NSFS_MAGIC = 0x6e736673;
