import { opendirSync, type Dir } from 'node:fs';
import { canceled, errnoOf, messageOf } from '../lib/errors.ts';
import { AT, O, RESOLVE, S } from './kernel-constants.ts';
import type { FileSyscalls } from './syscalls.ts';

export interface WalkHooks {
  /** Asked before each entry. */
  readonly aborted?: () => boolean;
  /** After each entry that was removed, with how many that makes. A test's way to change the tree half-way. */
  readonly removed?: (entries: number) => void;
}

/** What could not be removed, and the errno that says so. Its ancestors stay, too, and are not mentioned. */
export interface Obstacle {
  /** Below the starting directory, `/`-separated; the entry's own name included. */
  readonly path: string;
  readonly errno: string;
  readonly message: string;
}

export interface WalkResult {
  readonly entries: number;
  readonly obstacles: readonly Obstacle[];
  /** More obstacles than are listed, or a walk that was broken off. */
  readonly incomplete: boolean;
}

export interface TreeSize {
  readonly files: number;
  readonly directories: number;
  /** Disk space in use, not lengths. Hard links are counted once per name. */
  readonly bytes: number;
}

interface Frame {
  readonly name: Uint8Array;
  /** Undefined while closed: only the innermost {@link OPEN_LEVELS} directories are kept open. */
  fd: number | undefined;
  readonly ino: bigint;
  /** Subdirectories still to be entered. */
  pending: Uint8Array[];
  rescans: number;
  blocked: boolean;
}

const OPEN_LEVELS = 64;
const LISTED_OBSTACLES = 16;
// A read-only or dying disk refuses everything: there is no use in asking for each of a million files.
const TOLERATED_OBSTACLES = 200;
// Somebody who still writes into the directory gets this many chances to be finished.
const RESCANS = 3;
const READ_AHEAD_ENTRIES = 256;

/** Never across a mount, never through a symbolic link, never out of the directory we hold. */
const INTO = {
  flags: O.RDONLY | O.DIRECTORY | O.NOFOLLOW,
  resolve: RESOLVE.NO_XDEV | RESOLVE.BENEATH | RESOLVE.NO_SYMLINKS | RESOLVE.NO_MAGICLINKS,
} as const;
const UP = { flags: O.RDONLY | O.DIRECTORY | O.NOFOLLOW, resolve: RESOLVE.NO_XDEV | RESOLVE.NO_SYMLINKS } as const;

/**
 * Removes the entry `name` of the directory `parentFd` with all below it, by names relative to directories that are
 * held open: whatever is renamed, linked or mounted meanwhile, it stays inside the tree it was given. Synchronous; for workers.
 */
export function removeEntry(
  calls: FileSyscalls,
  parentFd: number,
  name: Uint8Array,
  hooks: WalkHooks = {},
): WalkResult {
  return new TreeRemoval(calls, hooks).run(parentFd, name);
}

class TreeRemoval {
  readonly #calls: FileSyscalls;
  readonly #hooks: WalkHooks;
  readonly #frames: Frame[] = [];
  readonly #obstacles: Obstacle[] = [];
  #obstacleCount = 0;
  #entries = 0;

  constructor(calls: FileSyscalls, hooks: WalkHooks) {
    this.#calls = calls;
    this.#hooks = hooks;
  }

  run(parentFd: number, name: Uint8Array): WalkResult {
    try {
      if (this.#enter(parentFd, name)) this.#walk(parentFd);
    } catch (error) {
      if (!(error instanceof Broken)) throw error;
    } finally {
      for (const frame of this.#frames) if (frame.fd !== undefined) this.#calls.close(frame.fd);
    }
    return {
      entries: this.#entries,
      obstacles: this.#obstacles,
      incomplete: this.#obstacleCount > this.#obstacles.length,
    };
  }

  #walk(parentFd: number): void {
    for (;;) {
      const frame = this.#frames.at(-1);
      if (frame === undefined) return;
      const next = frame.pending.pop();
      if (next !== undefined) this.#enter(this.#fdOf(frame), next);
      else if (!this.#leave(frame, parentFd)) return;
    }
  }

  /** Unlinks what is no directory; opens and empties of plain files what is one. True when a directory was entered. */
  #enter(parentFd: number, name: Uint8Array): boolean {
    let fd: number;
    try {
      fd = this.#calls.openat2(parentFd, name, INTO);
    } catch (error) {
      // No directory (any more): a link that took its place is removed, and what it points to is not looked at.
      if (['ENOTDIR', 'ELOOP'].includes(errnoOf(error) ?? '')) this.#unlink(parentFd, name);
      else this.#obstacle(name, error);
      return false;
    }
    const { ino } = this.#calls.statx(fd, '', AT.EMPTY_PATH);
    const frame: Frame = { name, fd, ino, pending: [], rescans: 0, blocked: false };
    this.#frames.push(frame);
    const farther = this.#frames.at(-1 - OPEN_LEVELS);
    if (farther?.fd !== undefined) {
      this.#calls.close(farther.fd);
      farther.fd = undefined;
    }
    this.#scan(frame, fd);
    return true;
  }

  /** Removes the plain entries and notes the directories. */
  #scan(frame: Frame, fd: number): void {
    let directory: Dir;
    try {
      directory = openDirectory(fd);
    } catch (error) {
      this.#obstacle(undefined, error);
      return;
    }
    try {
      for (let entry = directory.readSync(); entry !== null; entry = directory.readSync()) {
        const name = entry.name as unknown as Uint8Array;
        if (entry.isDirectory()) frame.pending.push(name);
        else this.#unlink(fd, name);
      }
    } finally {
      directory.closeSync();
    }
  }

  #unlink(parentFd: number, name: Uint8Array): void {
    this.#checkAborted();
    try {
      this.#calls.unlinkat(parentFd, name);
      this.#count();
    } catch (error) {
      const errno = errnoOf(error);
      if (errno === 'ENOENT') return;
      const frame = this.#frames.at(-1);
      // Became a directory since it was listed: the next scan enters it.
      if (errno === 'EISDIR' && frame !== undefined) frame.pending.push(name);
      else this.#obstacle(name, error);
    }
  }

  /** Removes the directory that is now empty. False when it was the outermost. */
  #leave(frame: Frame, outermostFd: number): boolean {
    this.#checkAborted();
    const parent = this.#frames.at(-2);
    const parentFd = parent === undefined ? outermostFd : this.#reopened(parent, frame);
    this.#frames.pop();
    if (frame.fd !== undefined) this.#calls.close(frame.fd);
    frame.fd = undefined;
    if (frame.blocked) {
      if (parent !== undefined) parent.blocked = true;
      return parent !== undefined;
    }
    try {
      this.#calls.unlinkat(parentFd, frame.name, AT.REMOVEDIR);
      this.#count();
    } catch (error) {
      const errno = errnoOf(error);
      if (errno === 'ENOTEMPTY' && frame.rescans < RESCANS && this.#again(frame, parentFd)) return true;
      if (errno !== 'ENOENT') this.#obstacle(frame.name, error);
    }
    return parent !== undefined;
  }

  /** Something was written into the directory after it was listed. */
  #again(frame: Frame, parentFd: number): boolean {
    if (!this.#enter(parentFd, frame.name)) return false;
    const again = this.#frames.at(-1);
    if (again !== undefined) again.rescans = frame.rescans + 1;
    return true;
  }

  #fdOf(frame: Frame): number {
    if (frame.fd === undefined) throw new Error('the innermost directory is always open');
    return frame.fd;
  }

  /** Opens the parent again by way of its child. If that leads elsewhere, somebody moved the child: stop at once. */
  #reopened(parent: Frame, child: Frame): number {
    if (parent.fd !== undefined) return parent.fd;
    const fd = this.#calls.openat2(this.#fdOf(child), '..', UP);
    if (this.#calls.statx(fd, '', AT.EMPTY_PATH).ino !== parent.ino) {
      this.#calls.close(fd);
      this.#obstacle(undefined, new Error('the directory was moved away while it was being deleted'));
      throw new Broken();
    }
    parent.fd = fd;
    return fd;
  }

  #count(): void {
    this.#entries++;
    this.#hooks.removed?.(this.#entries);
  }

  #checkAborted(): void {
    if (this.#hooks.aborted?.() === true) throw canceled('deleting was broken off');
  }

  #obstacle(name: Uint8Array | undefined, error: unknown): void {
    const frame = this.#frames.at(-1);
    if (frame !== undefined) frame.blocked = true;
    this.#obstacleCount++;
    if (this.#obstacles.length < LISTED_OBSTACLES) {
      const names = [...this.#frames.map((each) => each.name), ...(name === undefined ? [] : [name])];
      const path = names.map((part) => Buffer.from(part).toString('utf8')).join('/');
      this.#obstacles.push({ path, errno: errnoOf(error) ?? 'unknown', message: messageOf(error) });
    }
    if (this.#obstacleCount > TOLERATED_OBSTACLES) throw new Broken();
  }
}

/** The walk cannot go on; what stands in the way is noted already. */
class Broken extends Error {}

function openDirectory(fd: number): Dir {
  return opendirSync(`/proc/self/fd/${String(fd)}`, {
    encoding: 'buffer' as unknown as BufferEncoding,
    bufferSize: READ_AHEAD_ENTRIES,
  });
}

/** Counts what {@link removeEntry} would remove, without touching it. */
export function measureEntry(calls: FileSyscalls, parentFd: number, name: Uint8Array, hooks: WalkHooks = {}): TreeSize {
  const size = { files: 0, directories: 0, bytes: 0 };
  measure(calls, parentFd, name, hooks, size);
  return size;
}

function measure(
  calls: FileSyscalls,
  parentFd: number,
  name: Uint8Array,
  hooks: WalkHooks,
  size: { files: number; directories: number; bytes: number },
): void {
  if (hooks.aborted?.() === true) throw canceled('counting was broken off');
  let stat;
  try {
    stat = calls.statx(parentFd, name);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return;
    throw error;
  }
  size.bytes += Number(stat.blocks512) * 512;
  if ((stat.mode & S.IFMT) !== S.IFDIR) {
    size.files++;
    return;
  }
  size.directories++;
  const fd = calls.openat2(parentFd, name, INTO);
  try {
    const directory = openDirectory(fd);
    try {
      for (let entry = directory.readSync(); entry !== null; entry = directory.readSync()) {
        measure(calls, fd, entry.name as unknown as Uint8Array, hooks, size);
      }
    } finally {
      directory.closeSync();
    }
  } finally {
    calls.close(fd);
  }
}
