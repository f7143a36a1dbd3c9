import { lstat, mkdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { isTemporaryOf, writeFileAtomic } from '../../../lib/atomic-file.ts';
import type { Op } from '../../../lib/abort.ts';
import { errnoOf, isKind, messageOf } from '../../../lib/errors.ts';
import { namesIn, rmdirIfThere, unlinkIfThere } from '../../../lib/may-be-gone.ts';
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

/** As the source of a file system in memory it says in every mountinfo that the mount is one of ours. */
export const OWN_SOURCE = 'gantry-volume';

const OWN_TYPES: readonly string[] = ['tmpfs', 'hugetlbfs'];

/** The note that a plug-in leaves beside a volume. */
export const META_FILE = 'volume.json';

/**
 * Deletes a volume's directory: what we mounted on it ourselves is unmounted, then `linux/safe-remove` deletes; anything
 * else that is mounted on it or inside it is somebody's data, and blocks (BEHAVIOUR.md 17 to 20 and T11 do not).
 * What is mounted is judged from the kernel's own table, not from what the pod asked for.
 */
export async function tearDownDirectory(op: Op, deps: DirectoryDeps, place: VolumePlace): Promise<TeardownOutcome> {
  const { directory } = place;
  const infos = await deps.mountinfo();
  const bottom = mountsOn(infos, directory).at(-1);
  if (bottom !== undefined && isOwn(bottom)) {
    // Before anything is touched: as long as somebody's mount is there, the files beside it stay too.
    const foreign = foreignMounts(infos, directory);
    if (foreign.length > 0) return { kind: 'blocked', blockers: foreign.map(mountBlocker) };
    const busy = await unmountOwn(op, deps, directory, bottom);
    if (busy !== undefined) return { kind: 'blocked', blockers: [busy] };
  }
  const { ino } = await readMeta(place.metaDirectory);
  const outcome = await deps.remover.remove(op, {
    root: deps.podsDir,
    path: directory,
    ...(ino === undefined ? {} : { expectedIno: ino }),
  });
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
  return OWN_TYPES.includes(info.fsType) && info.source === OWN_SOURCE && info.root === '/';
}

async function unmountOwn(
  op: Op,
  deps: DirectoryDeps,
  directory: string,
  mine: MountInfo,
): Promise<TeardownBlocker | undefined> {
  try {
    await deps.mounts.unmount(op, directory);
    return undefined;
  } catch (error) {
    if (errnoOf(error) !== 'EBUSY' && !isKind(error, 'Unavailable')) throw error;
    return {
      path: directory,
      reason: 'busy',
      source: mine.source,
      fsType: mine.fsType,
      message: `${directory}: its own memory file system cannot be unmounted: ${messageOf(error)}`,
    };
  }
}

function mountBlocker(info: MountInfo): TeardownBlocker {
  return {
    path: info.mountPoint,
    reason: 'mount',
    source: info.source,
    fsType: info.fsType,
    message: `${info.mountPoint}: ${info.fsType} of ${info.source} is mounted there`,
  };
}

/** What the plug-in noted about a volume. */
export interface VolumeMeta {
  readonly medium?: string;
  /** Of the directory that we made. Anything else under its name is not ours. */
  readonly ino?: number;
}

async function readMeta(directory: string): Promise<VolumeMeta> {
  try {
    return JSON.parse(await readFile(join(directory, META_FILE), 'utf8')) as VolumeMeta;
  } catch {
    // Never written, or torn by a power cut: the mounts tell what matters.
    return {};
  }
}

/** Makes the volume's directory; its inode is written down, to know it again. */
export async function makeVolumeDirectory(place: VolumePlace, medium: string): Promise<void> {
  await mkdir(place.metaDirectory, { recursive: true, mode: 0o750 });
  const note = (meta: VolumeMeta): Promise<void> =>
    writeFileAtomic(join(place.metaDirectory, META_FILE), JSON.stringify(meta), { sync: false });
  await mkdir(dirname(place.directory), { recursive: true, mode: 0o750 });
  try {
    await mkdir(place.directory);
  } catch (error) {
    if (errnoOf(error) === 'EEXIST') return;
    throw error;
  }
  await note({ medium, ino: (await lstat(place.directory)).ino });
}

async function forgetMeta(directory: string): Promise<void> {
  for (const name of await namesIn(directory)) {
    if (name === META_FILE || isTemporaryOf(name, META_FILE)) await unlinkIfThere(join(directory, name));
  }
  await rmdirIfThere(directory);
}
