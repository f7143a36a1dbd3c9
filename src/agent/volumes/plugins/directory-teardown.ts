import { rmdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import type { Op } from '../../../lib/abort.ts';
import { errnoOf, isKind, messageOf } from '../../../lib/errors.ts';
import { mountsBelow, mountsOn, type MountInfo } from '../../../linux/mountinfo.ts';
import type { TeardownBlocker, TeardownOutcome, TreeRemover, VolumePlace } from '../plugin.ts';

export interface VolumeMounts {
  mount(
    op: Op,
    request: {
      readonly source: string;
      readonly target: string;
      readonly type: string;
      readonly flags: readonly ('nosuid' | 'nodev' | 'noexec')[];
      readonly data: string;
    },
  ): Promise<void>;
  unmount(op: Op, target: string): Promise<'unmounted' | 'not-mounted'>;
}

export interface DirectoryDeps {
  /** The folder of all pods: volumes are deleted inside a view of it. */
  readonly podsDir: string;
  readonly mounts: VolumeMounts;
  readonly mountinfo: () => Promise<readonly MountInfo[]>;
  readonly remover: TreeRemover;
}

/** As the source of a memory file system it says in every mountinfo that the mount is one of ours. */
export const OWN_TMPFS_SOURCE = 'gantry-volume';

/** The note that a plug-in leaves beside a volume. */
export const META_FILE = 'volume.json';

/**
 * Deletes a volume's directory: what we mounted on it ourselves is unmounted, then `linux/safe-remove` deletes; anything
 * else that is mounted on it or inside it is somebody's data, and blocks (BEHAVIOUR.md 17 to 20 and T11 do not).
 * What is mounted is judged from the kernel's own table, not from what the pod asked for.
 */
export async function tearDownDirectory(op: Op, deps: DirectoryDeps, place: VolumePlace): Promise<TeardownOutcome> {
  const foreign = foreignMounts(await deps.mountinfo(), place.directory);
  // Before anything is touched: as long as somebody's mount is there, the files beside it stay too.
  if (foreign.length > 0) return { kind: 'blocked', blockers: foreign.map(mountBlocker) };
  const busy = await unmountOwn(op, deps, place.directory);
  if (busy !== undefined) return { kind: 'blocked', blockers: [busy] };
  const outcome = await deps.remover.remove(op, { root: deps.podsDir, path: place.directory });
  if (outcome.kind === 'blocked') return { kind: 'blocked', blockers: outcome.blockers };
  await forgetMeta(place.metaDirectory);
  return { kind: 'gone' };
}

/** Mounts on or below the directory, except one of our own at the very bottom of the stack on it. */
export function foreignMounts(infos: readonly MountInfo[], directory: string): MountInfo[] {
  const onIt = mountsOn(infos, directory);
  const bottom = onIt.at(-1);
  return [...mountsBelow(infos, directory), ...onIt.filter((info) => info !== bottom || !isOwn(info))];
}

export function isOwn(info: MountInfo): boolean {
  return info.fsType === 'tmpfs' && info.source === OWN_TMPFS_SOURCE && info.root === '/';
}

async function unmountOwn(op: Op, deps: DirectoryDeps, directory: string): Promise<TeardownBlocker | undefined> {
  const [mine] = mountsOn(await deps.mountinfo(), directory);
  if (mine === undefined) return undefined;
  if (!isOwn(mine)) return mountBlocker(mine);
  try {
    await deps.mounts.unmount(op, directory);
  } catch (error) {
    if (errnoOf(error) !== 'EBUSY' && !isKind(error, 'Unavailable')) throw error;
    return {
      path: directory,
      reason: 'busy',
      source: mine.source,
      fsType: mine.fsType,
      message: `its own memory file system cannot be unmounted: ${messageOf(error)}`,
    };
  }
  return undefined;
}

function mountBlocker(info: MountInfo): TeardownBlocker {
  return {
    path: info.mountPoint,
    reason: 'mount',
    source: info.source,
    fsType: info.fsType,
    message: `${info.fsType} of ${info.source} is mounted there`,
  };
}

async function forgetMeta(directory: string): Promise<void> {
  await ignoreAbsent(unlink(join(directory, META_FILE)));
  await ignoreAbsent(rmdir(directory));
}

async function ignoreAbsent(done: Promise<void>): Promise<void> {
  try {
    await done;
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
  }
}
