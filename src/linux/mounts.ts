import type { Op } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import { errnoOf, isKind } from '../lib/errors.ts';
import { waitingFor } from '../lib/waits.ts';
import { HangSafe } from './hang-safe.ts';
import { MOUNT_ATTR, UMOUNT } from './kernel-constants.ts';
import { MappedOverlays } from './mapped-overlay.ts';
import { mountFlags, propagationFlags, type MountFlag, type Propagation } from './mount-flags.ts';
import { isBelow, mountsOn, readMountinfo, type MountInfo } from './mountinfo.ts';
import { canMountByLayer, mountOverlay } from './overlay-mount.ts';
import type { OverlayRequest } from './overlay-settings.ts';
import { realSyscalls, type Syscalls } from './syscalls.ts';

export type { MountFlag, Propagation } from './mount-flags.ts';
export type { OverlayRequest } from './overlay-settings.ts';

export interface MountRequest {
  readonly source: string;
  readonly target: string;
  readonly type?: string;
  readonly flags?: readonly MountFlag[];
  /** The file system's own options, comma-separated: `size=65536k,mode=0755`. */
  readonly data?: string;
}

export interface BindOptions {
  /** With the mounts below the source. */
  readonly recursive?: boolean;
  /** Of every mount of the copy, not just the top one. */
  readonly readOnly?: boolean;
  /** Default: `private`, so that nothing of ours lives on in somebody else's namespace (FAILURES.md row 40). */
  readonly propagation?: Propagation;
}

export type UnmountOutcome = 'unmounted' | 'not-mounted';

export interface MountsDeps {
  readonly clock: Clock;
  readonly syscalls?: Syscalls;
  readonly hangSafe?: Pick<HangSafe, 'umount2' | 'mountFrom'>;
  readonly mapped?: Pick<MappedOverlays, 'make'>;
  /** Forces one way of mounting overlays; by default the kernel is asked. */
  readonly overlayByLayer?: boolean;
}

/** File systems whose unmount waits for no disk, server or user space. */
const NEVER_HANGS: ReadonlySet<string> = new Set(
  'tmpfs ramfs devtmpfs proc sysfs devpts mqueue nsfs cgroup cgroup2 securityfs debugfs tracefs bpf'.split(' '),
);
/** File systems through which a path can be walked without waiting for a server or for user space. */
const LOCAL: ReadonlySet<string> = new Set([
  ...NEVER_HANGS,
  ...'ext2 ext3 ext4 xfs btrfs overlay squashfs erofs f2fs zfs vfat exfat iso9660 rootfs'.split(' '),
]);
const MORE_THAN_ANYONE_STACKS = 100;

/** Mounting and unmounting, never on the main thread. */
export class Mounts {
  readonly #syscalls: Syscalls;
  readonly #hangSafe: Pick<HangSafe, 'umount2' | 'mountFrom'>;
  readonly #mapped: Pick<MappedOverlays, 'make'>;
  #byLayer: Promise<boolean> | undefined;

  constructor({
    clock,
    syscalls = realSyscalls(),
    hangSafe = new HangSafe({ clock }),
    mapped = new MappedOverlays({ clock }),
    overlayByLayer,
  }: MountsDeps) {
    if (overlayByLayer !== undefined) this.#byLayer = Promise.resolve(overlayByLayer);
    this.#syscalls = syscalls;
    this.#hangSafe = hangSafe;
    this.#mapped = mapped;
  }

  /** For local file systems. Throws by errno: NotFound when source or target is missing, NotFound (ENODEV) for an unknown type. */
  async mount(op: Op, { source, target, type, flags = [], data }: MountRequest): Promise<void> {
    op.signal.throwIfAborted();
    await this.#syscalls.mount(source, target, type ?? null, mountFlags(flags), data ?? null);
  }

  /** Works with any number of layers that the kernel itself can stack (500). */
  async overlay(op: Op, request: OverlayRequest): Promise<void> {
    this.#byLayer ??= canMountByLayer(this.#syscalls);
    const deps = { syscalls: this.#syscalls, hangSafe: this.#hangSafe, mapped: this.#mapped };
    await mountOverlay(op, deps, await this.#byLayer, request);
  }

  /** A bind mount that appears with all its attributes at once: there is no moment at which a read-only one is writable. */
  async bind(
    op: Op,
    source: string,
    target: string,
    { recursive = false, readOnly = false, propagation = 'private' }: BindOptions = {},
  ): Promise<void> {
    op.signal.throwIfAborted();
    const fd = await this.#syscalls.openTree(source, { recursive });
    try {
      const flags = propagationFlags(propagation);
      const kind = { propagation: flags.propagation, recursive: flags.recursive || recursive };
      await this.#syscalls.mountSetattr(fd, { ...kind, ...(readOnly ? { set: MOUNT_ATTR.RDONLY } : {}) });
      await this.#syscalls.moveMount(fd, target);
      // Below a shared mount, as everything is under systemd, what is attached becomes shared.
      await this.#syscalls.mountSetattr(fd, kind);
    } finally {
      this.#syscalls.close(fd);
    }
  }

  /**
   * Takes the uppermost mount off `target`, without following a symbolic link there. `detach` takes it out of the tree
   * even if it is in use; without it, a mount in use is an error of kind Unavailable (EBUSY).
   * When the op's signal fires the promise rejects at once; the unmount itself may still happen.
   */
  async unmount(
    op: Op,
    target: string,
    { detach = false }: { readonly detach?: boolean } = {},
  ): Promise<UnmountOutcome> {
    op.signal.throwIfAborted();
    const flags = UMOUNT.NOFOLLOW | (detach ? UMOUNT.DETACH : 0);
    try {
      if (await this.#isQuick(target, detach)) await this.#syscalls.umount2(target, flags);
      else await waitingFor(op, `the unmount of ${target}`, () => this.#hangSafe.umount2(op, target, flags));
      return 'unmounted';
    } catch (error) {
      // EINVAL: there, but no mount point.
      if (isKind(error, 'NotFound') || errnoOf(error) === 'EINVAL') return 'not-mounted';
      throw error;
    }
  }

  /** Takes off everything that is stacked on `target`. */
  async unmountAll(op: Op, target: string, options: { readonly detach?: boolean } = {}): Promise<UnmountOutcome> {
    let outcome: UnmountOutcome = 'not-mounted';
    for (let rest = MORE_THAN_ANYONE_STACKS; rest > 0; rest--) {
      if ((await this.unmount(op, target, options)) === 'not-mounted') return outcome;
      outcome = 'unmounted';
    }
    return outcome;
  }

  /** Detaching waits for nothing, and neither does a memory file system, unless the way to the target leads through a stranger. */
  async #isQuick(target: string, detach: boolean): Promise<boolean> {
    const infos = await readMountinfo();
    const uppermost = mountsOn(infos, target)[0];
    return pathIsLocal(infos, target) && (detach || (uppermost !== undefined && NEVER_HANGS.has(uppermost.fsType)));
  }
}

/** Whether every mount above `path` is of a file system that answers from this machine. */
export function pathIsLocal(infos: readonly MountInfo[], path: string): boolean {
  return infos.every((info) => !isBelow(path, info.mountPoint) || LOCAL.has(info.fsType));
}
