import { open, type FileHandle } from 'node:fs/promises';
import type { Op } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import { MOUNT_ATTR } from './kernel-constants.ts';
import type { Syscalls } from './syscalls.ts';
import { realSyscalls } from './syscalls.ts';
import { UserNamespaceHolder } from './user-namespace.ts';

/**
 * Detached copies of folders' mounts, whose files have other owners: those that a user namespace has for them. They are in nobody's tree of
 * mounts and vanish with their descriptors, so nothing is left of them when we are killed.
 */
export class IdMappedLayers implements AsyncDisposable {
  readonly #syscalls: Pick<Syscalls, 'openTree' | 'mountSetattr' | 'close'>;
  readonly #descriptors: number[] = [];

  constructor(syscalls: Pick<Syscalls, 'openTree' | 'mountSetattr' | 'close'>) {
    this.#syscalls = syscalls;
  }

  /** Paths of the copies, which are good until this is disposed of. @param userNamespace a file of it: a pin, or `/proc/PID/ns/user` */
  async of(folders: readonly string[], userNamespace: string): Promise<string[]> {
    let file: FileHandle | undefined;
    try {
      file = await open(userNamespace, 'r');
      const paths: string[] = [];
      for (const folder of folders) {
        const fd = await this.#syscalls.openTree(folder);
        this.#descriptors.push(fd);
        await this.#syscalls.mountSetattr(fd, { set: MOUNT_ATTR.IDMAP, userNamespaceFd: file.fd });
        paths.push(`/proc/self/fd/${String(fd)}`);
      }
      return paths;
    } finally {
      await file?.close();
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    for (const fd of this.#descriptors.splice(0)) this.#syscalls.close(fd);
    return Promise.resolve();
  }
}

/**
 * Whether this kernel takes such copies as layers of an overlay, and the file system of `folder` can be mapped. Found out by doing it; the
 * overlay is attached nowhere. `other` is a folder beside it, because an overlay without a writable layer has two at least.
 */
export async function canIdMapLayers(
  op: Op,
  clock: Clock,
  { folder, other }: { readonly folder: string; readonly other: string },
  syscalls: Syscalls = realSyscalls(),
): Promise<boolean> {
  const range = [{ containerId: 0, hostId: 65_536, length: 65_536 }];
  try {
    await using holder = await UserNamespaceHolder.make(op, clock, { uids: range, gids: range }, []);
    await using layers = new IdMappedLayers(syscalls);
    const [lower = ''] = await layers.of([folder], `/proc/${String(holder.pid)}/ns/user`);
    const context = syscalls.fsopen('overlay');
    try {
      for (const path of [lower, other]) await syscalls.fsconfigString(context, 'lowerdir+', path);
      await syscalls.fsconfigCreate(context);
      syscalls.close(await syscalls.fsmount(context, 0));
      return true;
    } finally {
      syscalls.close(context);
    }
  } catch (error) {
    op.log.debug({ error: String(error) }, 'no user namespaces: layers cannot be mapped');
    return false;
  }
}
