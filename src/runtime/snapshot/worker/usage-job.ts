import { readdirSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { canceled, errnoOf, isKind } from '../../../lib/errors.ts';
import { AT_FDCWD, O, RESOLVE, S } from '../../../linux/kernel-constants.ts';
import type { StatxResult } from '../../../linux/syscalls.ts';
import type { JobContext } from './layer-job.ts';
import type { TreeUsage } from './protocol.ts';

const BLOCK_BYTES = 512n;
const DIRECTORIES_PER_TURN = 50;
/** A container writes the tree while we look: no link of its making is followed, no mount entered. */
const OPEN = {
  flags: O.DIRECTORY | O.NOFOLLOW,
  resolve: RESOLVE.BENEATH | RESOLVE.NO_SYMLINKS | RESOLVE.NO_XDEV,
};

/** Adds up a tree that may change under our hands: what vanishes meanwhile does not count. A missing one is empty. */
export async function runUsageJob(directory: string, { sys, signal }: JobContext): Promise<TreeUsage> {
  const seen = new Set<bigint>();
  let bytes = 0n;
  let inodes = 0;
  const add = (stat: StatxResult): void => {
    if ((stat.mode & S.IFMT) !== S.IFDIR && stat.nlink > 1) {
      if (seen.has(stat.ino)) return;
      seen.add(stat.ino);
    }
    bytes += stat.blocks512 * BLOCK_BYTES;
    inodes++;
  };
  let root: number;
  try {
    root = sys.openat2(AT_FDCWD, directory, { flags: O.DIRECTORY | O.NOFOLLOW });
  } catch (error) {
    if (isKind(error, 'NotFound')) return { bytes: 0, inodes: 0 };
    throw error;
  }
  try {
    add(sys.statx(root, '.'));
    // Paths from the root, not descriptors: a tree can be deeper than a process may have open files.
    const waiting: Buffer[] = [Buffer.from('.')];
    for (let visited = 0; ; visited++) {
      const path = waiting.pop();
      if (path === undefined) break;
      if (visited % DIRECTORIES_PER_TURN === DIRECTORIES_PER_TURN - 1) {
        await nextTurn();
        if (signal.aborted) throw canceled('adding up the disk usage was canceled');
      }
      try {
        const fd = sys.openat2(root, path, OPEN);
        try {
          for (const name of readdirSync(`/proc/self/fd/${String(fd)}/.`, { encoding: 'buffer' })) {
            const stat = statIfThere(() => sys.statx(fd, name));
            if (stat === undefined) continue;
            add(stat);
            if ((stat.mode & S.IFMT) === S.IFDIR) waiting.push(Buffer.concat([path, Buffer.from('/'), name]));
          }
        } finally {
          sys.close(fd);
        }
      } catch (error) {
        if (!VANISHED.has(errnoOf(error) ?? '')) throw error;
      }
    }
  } finally {
    sys.close(root);
  }
  return { bytes: Number(bytes), inodes };
}

/** Gone, or no longer a directory, or too deep for a path: not counted. */
const VANISHED: ReadonlySet<string> = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'EXDEV', 'ENAMETOOLONG', 'ESTALE']);

function statIfThere(stat: () => StatxResult): StatxResult | undefined {
  try {
    return stat();
  } catch (error) {
    if (VANISHED.has(errnoOf(error) ?? '')) return undefined;
    throw error;
  }
}
