import { errnoOf } from '../../../lib/errors.ts';
import { hostIdOf, type IdMappings } from '../../../linux/id-mappings.ts';
import { AT_FDCWD, O, RESOLVE } from '../../../linux/kernel-constants.ts';
import type { FileSyscalls, StatxResult } from '../../../linux/syscalls.ts';
import { joined, LayerTree, OPAQUE_XATTR, pathArgument } from '../unpack/layer-tree.ts';
import type { JobContext } from './layer-job.ts';
import type { RepairImpliedJob } from './protocol.ts';

/**
 * A layer that holds `tmp/x` but no `tmp/` (bazel and kaniko write such) was unpacked with a plain 0755 `tmp`, and in
 * an overlay the uppermost directory's mode and owner are what is seen: /tmp would no longer be 1777. So the
 * upper directory gets such directories with what the uppermost layer says that does describe them.
 */
export function runRepairImpliedJob(
  { upper, layers, idMappings }: RepairImpliedJob,
  { sys }: JobContext,
): { repaired: number } {
  using target = new LayerTree(sys, upper);
  const stack = layers.map((layer) => ({ files: layer.files, implied: new Set(layer.implied) }));
  // Shortest first, so that a parent is made before what is in it.
  const paths = [...new Set(layers.flatMap((layer) => layer.implied))].sort((a, b) => a.length - b.length);
  let repaired = 0;
  for (const path of paths) {
    const seen = seenOf(sys, stack, path);
    if (seen !== undefined && seen.isImplied && !isUsual(seen.stat))
      repaired += makeLike(sys, target, stack, path, idMappings);
  }
  return { repaired };
}

type Stack = readonly { readonly files: string; readonly implied: ReadonlySet<string> }[];

interface SeenDirectory {
  /** As the uppermost layer that describes it says. */
  readonly stat: StatxResult;
  /** The overlay shows what a layer above has made up instead. */
  readonly isImplied: boolean;
}

/** A directory of the image, all layers together; undefined when the image shows none there, or none describes it. */
function seenOf(sys: FileSyscalls, stack: Stack, path: string): SeenDirectory | undefined {
  let isImplied = false;
  for (const layer of stack) {
    const found = lookUp(sys, layer.files, path);
    if (found.kind === 'directory') {
      if (!layer.implied.has(path)) return { stat: found.stat, isImplied };
      isImplied = true;
    }
    if (found.kind === 'other' || found.hidesBelow) return undefined;
  }
  return undefined;
}

function makeLike(
  sys: FileSyscalls,
  target: LayerTree,
  stack: Stack,
  path: string,
  { uids, gids }: IdMappings,
): number {
  let whole = '';
  let made = 0;
  for (const name of path.split('/')) {
    const parent = target.directory(whole);
    whole = joined(whole, name);
    if (target.stat(parent, name) !== undefined) continue;
    const like = seenOf(sys, stack, whole)?.stat;
    sys.mkdirat(parent, pathArgument(name), like === undefined ? 0o755 : like.mode & 0o7777);
    const { uid, gid } = like ?? { uid: 0, gid: 0 };
    sys.fchownat(parent, pathArgument(name), hostIdOf(uids, uid), hostIdOf(gids, gid));
    made++;
  }
  return made;
}

/** As an implied directory looks anyway. */
function isUsual({ mode, uid, gid }: StatxResult): boolean {
  return (mode & 0o7777) === 0o755 && uid === 0 && gid === 0;
}

type Found =
  | { readonly kind: 'directory'; readonly stat: StatxResult; readonly hidesBelow: boolean }
  /** `hidesBelow`: a directory on the way is opaque, so no layer below has it either. */
  | { readonly kind: 'absent'; readonly hidesBelow: boolean }
  /** It, or something on the way, is a file, link or whiteout: no directory is seen there. */
  | { readonly kind: 'other' };

/** One layer's view of a path, component by component, without following links. */
function lookUp(sys: FileSyscalls, files: string, path: string): Found {
  let fd = sys.openat2(AT_FDCWD, files, { flags: O.DIRECTORY });
  let hidesBelow = false;
  try {
    for (const name of path.split('/')) {
      let next: number;
      try {
        next = sys.openat2(fd, pathArgument(name), OPEN_DIRECTORY);
      } catch (error) {
        if (errnoOf(error) === 'ENOENT') return { kind: 'absent', hidesBelow };
        if (NO_DIRECTORY.has(errnoOf(error) ?? '')) return { kind: 'other' };
        throw error;
      }
      sys.close(fd);
      fd = next;
      hidesBelow ||= sys.lgetxattr(`/proc/self/fd/${String(fd)}/.`, OPAQUE_XATTR) !== undefined;
    }
    return { kind: 'directory', stat: sys.statx(fd, '.'), hidesBelow };
  } finally {
    sys.close(fd);
  }
}

const OPEN_DIRECTORY = {
  flags: O.DIRECTORY | O.NOFOLLOW,
  resolve: RESOLVE.BENEATH | RESOLVE.NO_SYMLINKS | RESOLVE.NO_XDEV,
};
const NO_DIRECTORY: ReadonlySet<string> = new Set(['ENOTDIR', 'ELOOP']);
