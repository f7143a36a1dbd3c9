import { realpath } from 'node:fs/promises';
import { errnoOf } from '../lib/errors.ts';
import { AT, AT_FDCWD, MS, O, RESOLVE } from './kernel-constants.ts';
import { foreignMounts, processesUsing, type ForeignMount, type Holder } from './mount-holders.ts';
import { locate, mountsWithin } from './mount-location.ts';
import { isBelow, readMountinfo, type MountInfo } from './mountinfo.ts';
import type { Blocker, RemoveOutcome, RemovePlan, RemoveRequest } from './safe-remove.ts';
import type { Syscalls } from './syscalls.ts';
import { measureEntry, removeEntry, type Obstacle, type WalkHooks } from './tree-walker.ts';

/** The directory that holds the entry to remove, in the detached view. */
interface Entry {
  readonly viewFd: number;
  readonly parentFd: number;
  readonly name: Uint8Array;
}

type Found = Entry | 'absent' | Blocker;

/** No symbolic link on the way, and no mount: between root and path everything is ours. */
const STRAIGHT = RESOLVE.NO_XDEV | RESOLVE.BENEATH | RESOLVE.NO_SYMLINKS | RESOLVE.NO_MAGICLINKS;

/** SafeRemove.remove, on this thread. It blocks while it walks. */
export async function removeTree(
  calls: Syscalls,
  request: RemoveRequest,
  hooks: WalkHooks = {},
): Promise<RemoveOutcome> {
  const real = await realPath(request);
  if (real === undefined) return { kind: 'absent' };
  const before = await mountBlockers(request, real);
  if (before.length > 0) return { kind: 'blocked', blockers: before, entries: 0 };
  const found = findEntry(calls, request);
  if (found === 'absent') return { kind: 'absent' };
  if ('reason' in found) return { kind: 'blocked', blockers: [found], entries: 0 };
  try {
    const { entries, obstacles, incomplete } = removeEntry(calls, found.parentFd, found.name, hooks);
    if (obstacles.length === 0 && !incomplete) return { kind: 'removed', entries };
    const blockers = await explain(request, real, obstacles);
    return { kind: 'blocked', blockers, entries };
  } finally {
    closeEntry(calls, found);
  }
}

/** SafeRemove.plan, on this thread. */
export async function planTree(calls: Syscalls, request: RemoveRequest, hooks: WalkHooks = {}): Promise<RemovePlan> {
  const nothing = { files: 0, directories: 0, bytes: 0 };
  const real = await realPath(request);
  if (real === undefined) return { ...nothing, blockers: [], absent: true };
  const blockers = await mountBlockers(request, real);
  const found = findEntry(calls, request);
  if (found === 'absent') return { ...nothing, blockers, absent: true };
  if ('reason' in found) return { ...nothing, blockers: blockers.length > 0 ? blockers : [found], absent: false };
  try {
    return { ...measureEntry(calls, found.parentFd, found.name, hooks), blockers, absent: false };
  } finally {
    closeEntry(calls, found);
  }
}

/** The path as the mount table names it: the root may be reached through a symbolic link, the rest may not. */
async function realPath({ root, path }: RemoveRequest): Promise<string | undefined> {
  try {
    const real = await realpath(root);
    const rest = path.slice(root === '/' ? 0 : root.length);
    return real === '/' ? rest : `${real}${rest}`;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * A copy of the mount that `root` lies on: private, attached nowhere, without the mounts on top of it. It has no path, nobody
 * else can mount into it, and it vanishes with its descriptor, also when this process is killed.
 */
export function openView(calls: Syscalls, root: string): number {
  const fd = calls.openTreeSync(root);
  try {
    calls.mountSetattrSync(fd, { propagation: MS.PRIVATE });
    return fd;
  } catch (error) {
    calls.close(fd);
    throw error;
  }
}

function findEntry(calls: Syscalls, request: RemoveRequest): Found {
  const { root, path, expectedIno } = request;
  const relative = path.slice(root === '/' ? 1 : root.length + 1);
  const viewFd = openView(calls, root);
  const opened = [viewFd];
  try {
    const slash = relative.lastIndexOf('/');
    const parentFd =
      slash < 0
        ? calls.openat2(viewFd, '.', { flags: O.RDONLY | O.DIRECTORY, resolve: STRAIGHT })
        : calls.openat2(viewFd, relative.slice(0, slash), { flags: O.RDONLY | O.DIRECTORY, resolve: STRAIGHT });
    opened.push(parentFd);
    const name = Buffer.from(relative.slice(slash + 1));
    const seen = calls.statx(parentFd, name);
    const trouble = compareWithRealPath(calls, request, relative, seen.ino);
    if (trouble !== undefined) return trouble;
    if (expectedIno !== undefined && seen.ino !== BigInt(expectedIno)) {
      return foreign(path, `${path} is not the directory that was made there (inode ${String(seen.ino)})`);
    }
    opened.length = 0;
    return { viewFd, parentFd, name };
  } catch (error) {
    // The view shows what is under the mounts: absent there, present outside means that a mount is on the way.
    const trouble = compareWithRealPath(calls, request, relative, undefined);
    if (trouble !== undefined) return trouble;
    if (['ENOENT', 'ENOTDIR'].includes(errnoOf(error) ?? '')) return 'absent';
    throw error;
  } finally {
    for (const fd of opened) calls.close(fd);
  }
}

/** What the path means to everybody else must be what it means in the view. */
function compareWithRealPath(
  calls: Syscalls,
  { root, path }: RemoveRequest,
  relative: string,
  ino: bigint | undefined,
): Blocker | undefined {
  const rootFd = calls.openat2(AT_FDCWD, root, { flags: O.PATH | O.DIRECTORY });
  try {
    const fd = calls.openat2(rootFd, relative, {
      flags: O.PATH | O.NOFOLLOW,
      resolve: STRAIGHT,
    });
    try {
      const real = calls.statx(fd, '', AT.EMPTY_PATH).ino;
      if (real === ino) return undefined;
      return foreign(path, `${path} is reached through a symbolic link or changed while it was looked at`);
    } finally {
      calls.close(fd);
    }
  } catch (error) {
    switch (errnoOf(error)) {
      case 'EXDEV':
        return { path, reason: 'mount', message: `${path}: something is mounted between it and ${root}` };
      case 'ELOOP':
        return foreign(path, `${path} is reached through a symbolic link`);
      case 'ENOENT':
      case 'ENOTDIR':
        return undefined;
      default:
        throw error;
    }
  } finally {
    calls.close(rootFd);
  }
}

function foreign(path: string, message: string): Blocker {
  return { path, reason: 'foreign-inode', message };
}

function closeEntry(calls: Syscalls, { parentFd, viewFd }: Entry): void {
  calls.close(parentFd);
  calls.close(viewFd);
}

/** Everything that is mounted on the path, below it, or, by another way or in another namespace, on one of its directories. */
async function mountBlockers({ path, foreignNamespaces = 'block' }: RemoveRequest, real: string): Promise<Blocker[]> {
  const infos = await readMountinfo();
  const location = locate(infos, real);
  const byPath = infos.filter((info) => info.mountPoint === real || isBelow(info.mountPoint, real));
  const byLocation = location === undefined ? [] : mountsWithin(infos, location);
  const blockers: Blocker[] = [];
  const ours = new Set([...byPath, ...byLocation]);
  for (const info of ours) {
    blockers.push(mountBlocker(shownPath(info.mountPoint, real, path), info, await processesUsing(info.mountPoint)));
  }
  if (foreignNamespaces === 'ignore' || location === undefined) return blockers;
  // Under systemd every service with a namespace of its own has a copy of each of our mounts, which goes with ours. One that
  // stays is named by the next attempt.
  const shown = new Set([...ours].map(whatIsWhere));
  const theirs = await foreignMounts((others) =>
    mountsWithin(others, location).filter((info) => !shown.has(whatIsWhere(info))),
  );
  return [...blockers, ...theirs.map(foreignBlocker)];
}

function whatIsWhere({ device, root, mountPoint }: MountInfo): string {
  return JSON.stringify([device, root, mountPoint]);
}

/** In the words of the caller, who may know the root by another name. */
function shownPath(mountPoint: string, real: string, path: string): string {
  return mountPoint === real || isBelow(mountPoint, real) ? `${path}${mountPoint.slice(real.length)}` : mountPoint;
}

function mountBlocker(path: string, info: MountInfo, holders: readonly Holder[]): Blocker {
  const from = info.root === '/' ? info.source : `${info.source}[${info.root}]`;
  return {
    path,
    reason: 'mount',
    source: from,
    fsType: info.fsType,
    ...(holders.length === 0 ? {} : { holders }),
    message: `${path}: ${info.fsType} of ${from} is mounted there${heldBy(holders)}`,
  };
}

function foreignBlocker({ info, mountNamespace, holder }: ForeignMount): Blocker {
  const blocker = mountBlocker(info.mountPoint, info, [holder]);
  return { ...blocker, message: `${blocker.message}, in its own mount namespace ${String(mountNamespace)}` };
}

function heldBy(holders: readonly Holder[]): string {
  if (holders.length === 0) return '';
  const names = holders.map(({ pid, comm }) => `pid ${String(pid)}${comm === undefined ? '' : ` (${comm})`}`);
  return `, held by ${names.join(', ')}`;
}

/** Turns the walk's errnos into what a person can act on. */
async function explain(request: RemoveRequest, real: string, obstacles: readonly Obstacle[]): Promise<Blocker[]> {
  const mounts = await mountBlockers(request, real);
  const top = request.path.slice(0, request.path.lastIndexOf('/'));
  const blockers: Blocker[] = [...mounts];
  for (const { path: below, errno, message } of obstacles) {
    const path = `${top}/${below}`;
    if (errno === 'EXDEV' || errno === 'EBUSY') {
      if (mounts.some((mount) => mount.path === path || isBelow(mount.path, path))) continue;
      // The mount may be gone again by now; a retry will find out.
      blockers.push(await busy(path, `${path}: busy, something is or was mounted there`));
    } else if (errno === 'ENOTEMPTY') {
      blockers.push(await busy(path, `${path}: somebody keeps writing into it`));
    } else {
      blockers.push({ path, reason: 'error', message: `${path}: ${message}` });
    }
  }
  return blockers;
}

async function busy(path: string, message: string): Promise<Blocker> {
  const holders = await processesUsing(path);
  return {
    path,
    reason: 'busy',
    ...(holders.length === 0 ? {} : { holders }),
    message: `${message}${heldBy(holders)}`,
  };
}
