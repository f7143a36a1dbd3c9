import { randomFillSync } from 'node:crypto';
import { closeSync, fsyncSync, ftruncateSync, openSync, statfsSync, statSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import type { ReserveState } from './protocol.ts';

/** Enough for what databases grow by while all on a machine is stopped and deleted, and no matter on any disk. */
const MAX_BYTES = 8 << 20;
/** Of a disk that is so small that this would be much of it. */
const SHARE_OF_DISK = 16;
const SLICE_BYTES = 256 << 10;

/**
 * A file that does nothing but take up room, to be given up piece by piece on a full disk, so that what has ended can still be written
 * down (FAILURES.md row 13). In pieces, because what filled the disk takes whatever becomes free: each piece is good for at least
 * the write that follows it. For the store thread: it blocks.
 */
export class ReserveFile {
  readonly path: string;
  readonly #bytes: number;
  #left = 0;

  /** Does not fail: on a full disk there is what an earlier process left of it. */
  constructor(path: string) {
    this.path = path;
    const { blocks, bsize } = statfsSync(dirname(path));
    const share = Math.min(MAX_BYTES, Math.floor((blocks * bsize) / SHARE_OF_DISK));
    this.#bytes = Math.max(SLICE_BYTES, share - (share % SLICE_BYTES));
    this.#left = Math.min(statSync(path, { throwIfNoEntry: false })?.size ?? 0, this.#bytes);
    this.fill();
  }

  state(): ReserveState {
    return { path: this.path, bytes: this.#bytes, leftBytes: this.#left };
  }

  /** Makes it whole if the disk has room for it and as much again: else it would be given up again in a moment. */
  fill(): void {
    const missing = this.#bytes - this.#left;
    if (missing === 0 || freeBytes(dirname(this.path)) < missing + this.#bytes) return;
    // Not zeros: a file system that compresses would keep nothing free for them.
    const chunk = randomFillSync(Buffer.alloc(SLICE_BYTES));
    try {
      this.#change((fd) => {
        for (let at = this.#left; at < this.#bytes; at += SLICE_BYTES) {
          writeAll(fd, chunk.subarray(0, Math.min(SLICE_BYTES, this.#bytes - at)), at);
        }
        fsyncSync(fd);
      });
      this.#left = this.#bytes;
    } catch {
      this.#shrinkTo(this.#left);
    }
  }

  /** Gives up a piece. False when there is none left. */
  give(): boolean {
    if (this.#left === 0) return false;
    return this.#shrinkTo(Math.max(0, this.#left - SLICE_BYTES));
  }

  #shrinkTo(bytes: number): boolean {
    try {
      this.#change((fd) => ftruncateSync(fd, bytes));
      this.#left = bytes;
      return true;
    } catch {
      // Somebody has put something else in its place: there is nothing to give up.
      this.#left = 0;
      return false;
    }
  }

  #change(change: (fd: number) => void): void {
    const fd = openSync(this.path, 'a+', 0o600);
    try {
      change(fd);
    } finally {
      closeSync(fd);
    }
  }
}

/** What the superuser may still write there. */
export function freeBytes(folder: string): number {
  const { bfree, bsize } = statfsSync(folder);
  return bfree * bsize;
}

function writeAll(fd: number, bytes: Uint8Array, at: number): void {
  for (let done = 0; done < bytes.length;) done += writeSync(fd, bytes, done, bytes.length - done, at + done);
}
