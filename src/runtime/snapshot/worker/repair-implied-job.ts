import { errnoOf } from '../../../lib/errors.ts';
import { AT_FDCWD, O, RESOLVE } from '../../../linux/kernel-constants.ts';
import type { FileSyscalls, StatxResult } from '../../../linux/syscalls.ts';
import { entryPath } from '../unpack/entry-path.ts';
import { isDirectory, joined, LayerTree, pathArgument } from '../unpack/layer-tree.ts';
import type { JobContext } from './layer-job.ts';
import type { RepairImpliedJob } from './protocol.ts';

const AS_IT_IS = { flags: O.PATH | O.NOFOLLOW, resolve: RESOLVE.BENEATH | RESOLVE.NO_SYMLINKS | RESOLVE.NO_XDEV };

/**
 * A layer that holds `tmp/x` but no `tmp/` (bazel and kaniko write such) was unpacked with a plain 0755 `tmp`, and in
 * an overlay the uppermost directory's mode and owner are what is seen: /tmp would no longer be 1777. So the
 * upper directory gets such directories with what the uppermost layer says that does describe them.
 */
export function runRepairImpliedJob({ upper, layers }: RepairImpliedJob, { sys }: JobContext): { repaired: number } {
  using target = new LayerTree(sys, upper);
  const implied = layers.map((layer) => new Set(layer.implied));
  // Shortest first, so that a parent is made before what is in it.
  const paths = [...new Set(layers.flatMap((layer) => layer.implied))].sort((a, b) => a.length - b.length);
  let repaired = 0;
  for (const path of paths) {
    const described = describedBy(sys, layers, implied, path);
    if (described === undefined) continue;
    const parents = entryPath(path).parent;
    if (parents !== '' && target.existingDirectory(parents) === undefined)
      makeLike(sys, target, layers, implied, parents);
    repaired += makeLike(sys, target, layers, implied, path);
  }
  return { repaired };
}

/** What is seen of `path` when the upper directory has none: the attributes to have, or undefined if they are right. */
function describedBy(
  sys: FileSyscalls,
  layers: RepairImpliedJob['layers'],
  implied: readonly ReadonlySet<string>[],
  path: string,
): StatxResult | undefined {
  let seen = false;
  for (const [i, layer] of layers.entries()) {
    const stat = statBelow(sys, layer.files, path);
    if (stat === undefined) continue;
    // A file, link or whiteout ends the directory: what lies below is not seen.
    if (!isDirectory(stat)) return undefined;
    if (implied[i]?.has(path) !== true) return seen ? stat : undefined;
    seen = true;
  }
  return undefined;
}

function makeLike(
  sys: FileSyscalls,
  target: LayerTree,
  layers: RepairImpliedJob['layers'],
  implied: readonly ReadonlySet<string>[],
  path: string,
): number {
  let whole = '';
  let made = 0;
  for (const name of path.split('/')) {
    const parent = target.directory(whole);
    whole = joined(whole, name);
    if (target.stat(parent, name) !== undefined) continue;
    const like = describedBy(sys, layers, implied, whole) ?? uppermost(sys, layers, whole);
    sys.mkdirat(parent, pathArgument(name), like === undefined ? 0o755 : like.mode & 0o7777);
    if (like !== undefined) sys.fchownat(parent, pathArgument(name), like.uid, like.gid);
    made++;
  }
  return made;
}

function uppermost(sys: FileSyscalls, layers: RepairImpliedJob['layers'], path: string): StatxResult | undefined {
  for (const layer of layers) {
    const stat = statBelow(sys, layer.files, path);
    if (stat !== undefined) return stat;
  }
  return undefined;
}

function statBelow(sys: FileSyscalls, files: string, path: string): StatxResult | undefined {
  const root = sys.openat2(AT_FDCWD, files, { flags: O.PATH | O.DIRECTORY });
  try {
    const { parent, name } = entryPath(path);
    if (parent === '') return sys.statx(root, pathArgument(name));
    const fd = sys.openat2(root, pathArgument(parent), AS_IT_IS);
    try {
      return sys.statx(fd, pathArgument(name));
    } finally {
      sys.close(fd);
    }
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'ELOOP'].includes(errnoOf(error) ?? '')) return undefined;
    throw error;
  } finally {
    sys.close(root);
  }
}
