import { readFile, statfs } from 'node:fs/promises';
import type { Clock } from '../../lib/clock.ts';
import { readMountinfo, type MountInfo } from '../../linux/mountinfo.ts';

/** The file system that containers write to. */
export interface Disk {
  /** What it is on, as the mount table has it: `/dev/vda1`. */
  readonly device: string;
  readonly bytes: bigint;
  readonly inodes: bigint;
  readonly freeInodes: bigint;
}

const FRESH_MS = 10_000;

/** Looks at the disk of one folder, not more often than need be. */
export class DiskLook {
  readonly #clock: Clock;
  readonly #folder: string;
  #last: { readonly atMs: number; readonly disk: Promise<Disk> } | undefined;

  constructor(clock: Clock, folder: string) {
    this.#clock = clock;
    this.#folder = folder;
  }

  look(): Promise<Disk> {
    const nowMs = this.#clock.monotonicMs();
    if (this.#last !== undefined && nowMs - this.#last.atMs < FRESH_MS) return this.#last.disk;
    const disk = this.#ask();
    this.#last = { atMs: nowMs, disk };
    disk.catch(() => (this.#last = undefined));
    return disk;
  }

  async #ask(): Promise<Disk> {
    const [{ blocks, bsize, files, ffree }, infos] = await Promise.all([
      statfs(this.#folder, { bigint: true }),
      readMountinfo(),
    ]);
    const device = mountOf(infos, this.#folder)?.source ?? this.#folder;
    return { device, bytes: blocks * bsize, inodes: files, freeInodes: ffree };
  }
}

/** The mount that a path is on: of the deepest, the one mounted last. Pure. */
export function mountOf(infos: readonly MountInfo[], path: string): MountInfo | undefined {
  let found: MountInfo | undefined;
  for (const info of infos) {
    const inside = info.mountPoint === '/' ? '/' : `${info.mountPoint}/`;
    if (path !== info.mountPoint && !path.startsWith(inside)) continue;
    if (found === undefined || info.mountPoint.length >= found.mountPoint.length) found = info;
  }
  return found;
}

/** Names of block devices (`/dev/vda`), from their numbers. */
export class BlockDevices {
  readonly #names = new Map<string, string>();

  /** A device that has no name (any more) is called by its numbers. */
  async nameOf(major: number, minor: number): Promise<string> {
    const numbers = `${String(major)}:${String(minor)}`;
    const known = this.#names.get(numbers);
    if (known !== undefined) return known;
    const text = await readFile(`/sys/dev/block/${numbers}/uevent`, 'utf8').catch(() => '');
    const found = /^DEVNAME=(.+)$/m.exec(text)?.[1];
    const name = found === undefined ? numbers : `/dev/${found}`;
    this.#names.set(numbers, name);
    return name;
  }
}
