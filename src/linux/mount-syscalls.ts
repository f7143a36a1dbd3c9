import { errnoError } from './errno.ts';
import { cPath } from './file-syscalls.ts';
import { AT, AT_FDCWD, MOVE_MOUNT_F_EMPTY_PATH, O, OPEN_TREE_CLONE } from './kernel-constants.ts';
import { callAsync, libc, SYS } from './libc.ts';

export interface MountAttributes {
  /** `MOUNT_ATTR.*` to set. */
  readonly set?: number;
  /** `MS.PRIVATE`, `MS.SLAVE`, `MS.SHARED` or `MS.UNBINDABLE`. */
  readonly propagation?: number;
  readonly recursive?: boolean;
  /** Of the user namespace whose ids a mount with `MOUNT_ATTR.IDMAP` has. */
  readonly userNamespaceFd?: number;
}

/** The mount calls. They run in libuv's pool, except those that say that they are quick. Errors as FileSyscalls'. */
export interface MountSyscalls {
  mount(source: string, target: string, type: string | null, flags: number, data: string | null): Promise<void>;
  umount2(target: string, flags: number): Promise<void>;
  /** A detached copy of the mount at `path` (its subtree with `recursive`). It vanishes with its descriptor. */
  openTree(path: string, options?: { readonly recursive?: boolean }): Promise<number>;
  /** The same, synchronously: for workers. */
  openTreeSync(path: string): number;
  /** Of a whole mount: `fd` as openTree or fsmount made it, or a path. */
  mountSetattr(at: number | string, attributes: MountAttributes): Promise<void>;
  mountSetattrSync(fd: number, attributes: MountAttributes): void;
  /** Attaches a detached mount. */
  moveMount(fd: number, target: string): Promise<void>;
  moveMountSync(fd: number, target: string): void;
  /** Quick. A context to configure a new file system in. */
  fsopen(type: string): number;
  fsconfigString(fd: number, key: string, value: string): Promise<void>;
  fsconfigFlag(fd: number, key: string): Promise<void>;
  fsconfigCreate(fd: number): Promise<void>;
  /** One of the three above, synchronously. A setting without a value is a flag. */
  fsconfigSync(fd: number, what: { readonly key: string; readonly value?: string } | 'create'): void;
  /** A detached mount of the created file system. */
  fsmount(fd: number, attributes: number): Promise<number>;
  fsmountSync(fd: number): number;
  /** Quick. What the kernel has written to the context: lines such as `e overlay: …`. */
  fsMessages(fd: number): string[];
}

const FSOPEN_CLOEXEC = 1;
const FSMOUNT_CLOEXEC = 1;
const FSCONFIG_SET_FLAG = 0;
const FSCONFIG_SET_STRING = 1;
const FSCONFIG_CMD_CREATE = 6;

interface Answer {
  readonly result: number;
  readonly errno: number;
}

function check({ result, errno }: Answer, what: string): number {
  if (result < 0) throw errnoError(errno, what);
  return result;
}

function quick(result: number | bigint, what: string): number {
  return check({ result: Number(result), errno: libc.errno() }, what);
}

/** struct mount_attr. */
function attributesOf({ set = 0, propagation = 0, userNamespaceFd = 0 }: MountAttributes): Buffer {
  const attributes = Buffer.alloc(32);
  attributes.writeBigUInt64LE(BigInt(set), 0);
  attributes.writeBigUInt64LE(BigInt(propagation), 16);
  attributes.writeBigUInt64LE(BigInt(userNamespaceFd), 24);
  return attributes;
}

export function realMountSyscalls(): MountSyscalls {
  return {
    async mount(source, target, type, flags, data) {
      const answer = await callAsync(libc.mount, cPath(source), cPath(target), type, flags, data);
      check(answer, `mount ${type ?? ''} ${source} on ${target}`);
    },
    async umount2(target, flags) {
      check(await callAsync(libc.umount2, cPath(target), flags), `unmount ${target}`);
    },
    async openTree(path, { recursive = false } = {}) {
      const flags = OPEN_TREE_CLONE | O.CLOEXEC | (recursive ? AT.RECURSIVE : 0);
      return check(await callAsync(libc.openTree, SYS.open_tree, AT_FDCWD, cPath(path), flags), `clone mount ${path}`);
    },
    openTreeSync(path) {
      return quick(
        libc.openTree(SYS.open_tree, AT_FDCWD, cPath(path), OPEN_TREE_CLONE | O.CLOEXEC),
        `clone mount ${path}`,
      );
    },
    async mountSetattr(at, attributes) {
      const [dirfd, path] = typeof at === 'number' ? [at, ''] : [AT_FDCWD, cPath(at)];
      const flags = (typeof at === 'number' ? AT.EMPTY_PATH : 0) | (attributes.recursive === true ? AT.RECURSIVE : 0);
      const how = attributesOf(attributes);
      const answer = await callAsync(libc.mountSetattr, SYS.mount_setattr, dirfd, path, flags, how, how.length);
      check(answer, `mount_setattr ${path}`);
    },
    mountSetattrSync(fd, attributes) {
      const flags = AT.EMPTY_PATH | (attributes.recursive === true ? AT.RECURSIVE : 0);
      const how = attributesOf(attributes);
      quick(libc.mountSetattr(SYS.mount_setattr, fd, '', flags, how, how.length), 'mount_setattr');
    },
    async moveMount(fd, target) {
      const answer = await callAsync(
        libc.moveMount,
        SYS.move_mount,
        fd,
        '',
        AT_FDCWD,
        cPath(target),
        MOVE_MOUNT_F_EMPTY_PATH,
      );
      check(answer, `attach mount on ${target}`);
    },
    moveMountSync(fd, target) {
      quick(
        libc.moveMount(SYS.move_mount, fd, '', AT_FDCWD, cPath(target), MOVE_MOUNT_F_EMPTY_PATH),
        `attach mount on ${target}`,
      );
    },
    fsopen(type) {
      return quick(libc.fsopen(SYS.fsopen, type, FSOPEN_CLOEXEC), `fsopen ${type}`);
    },
    async fsconfigString(fd, key, value) {
      const answer = await callAsync(libc.fsconfig, SYS.fsconfig, fd, FSCONFIG_SET_STRING, key, cPath(value), 0);
      check(answer, `fsconfig ${key}=${value}`);
    },
    async fsconfigFlag(fd, key) {
      check(await callAsync(libc.fsconfig, SYS.fsconfig, fd, FSCONFIG_SET_FLAG, key, null, 0), `fsconfig ${key}`);
    },
    async fsconfigCreate(fd) {
      check(await callAsync(libc.fsconfig, SYS.fsconfig, fd, FSCONFIG_CMD_CREATE, null, null, 0), 'fsconfig create');
    },
    fsconfigSync(fd, what) {
      if (what === 'create') {
        quick(libc.fsconfig(SYS.fsconfig, fd, FSCONFIG_CMD_CREATE, null, null, 0), 'fsconfig create');
        return;
      }
      const { key, value } = what;
      const [command, text] = value === undefined ? [FSCONFIG_SET_FLAG, null] : [FSCONFIG_SET_STRING, cPath(value)];
      quick(libc.fsconfig(SYS.fsconfig, fd, command, key, text, 0), `fsconfig ${key}`);
    },
    async fsmount(fd, attributes) {
      return check(await callAsync(libc.fsmount, SYS.fsmount, fd, FSMOUNT_CLOEXEC, attributes), 'fsmount');
    },
    fsmountSync(fd) {
      return quick(libc.fsmount(SYS.fsmount, fd, FSMOUNT_CLOEXEC, 0), 'fsmount');
    },
    fsMessages(fd) {
      const lines: string[] = [];
      const buffer = Buffer.alloc(4096);
      // One line per read; ENODATA ends them.
      for (let rest = 16; rest > 0; rest--) {
        const size = Number(libc.read(fd, buffer, buffer.length));
        if (size <= 0) break;
        lines.push(buffer.toString('utf8', 0, size).trim());
      }
      return lines;
    },
  };
}
