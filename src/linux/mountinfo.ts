import { readFile } from 'node:fs/promises';
import { fromNodeError } from './errno.ts';

/** One line of /proc/PID/mountinfo (proc(5)). */
export interface MountInfo {
  readonly mountId: number;
  readonly parentId: number;
  /** `major:minor` of the file system. */
  readonly device: string;
  /** Which directory of the file system is mounted: `/`, or the source of a bind mount. */
  readonly root: string;
  /** Unescaped. */
  readonly mountPoint: string;
  /** The kernel marks a bind mount whose source was deleted with `//deleted` after its root. */
  readonly deleted: boolean;
  readonly options: readonly string[];
  /** Peer group, when mounts propagate from here. */
  readonly shared?: number;
  /** The peer group that this mount receives from. */
  readonly master?: number;
  readonly fsType: string;
  readonly source: string;
  readonly superOptions: readonly string[];
}

const DELETED = '//deleted';

/** Kernel's octal escapes (space, tab, newline, backslash), by bytes: a name may be UTF-8 beside them. */
function unescape(field: string): string {
  if (!field.includes('\\')) return field;
  return field.replace(/\\([0-7]{3})/g, (_whole, octal: string) => String.fromCharCode(parseInt(octal, 8)));
}

function tagNumber(tags: readonly string[], name: string): number | undefined {
  const tag = tags.find((candidate) => candidate.startsWith(`${name}:`));
  return tag === undefined ? undefined : Number(tag.slice(name.length + 1));
}

/** In the kernel's order: of two mounts on one point the later line is the upper one. Lines that do not parse are left out. */
export function parseMountinfo(text: string): MountInfo[] {
  const infos: MountInfo[] = [];
  for (const line of text.split('\n')) {
    const fields = line.split(' ');
    const dash = fields.indexOf('-', 6);
    const [mountId, parentId, device, rawRoot, rawMountPoint, options] = fields;
    const [fsType, source, superOptions] = dash < 0 ? [] : fields.slice(dash + 1);
    if (rawMountPoint === undefined || options === undefined || fsType === undefined) continue;
    const tags = fields.slice(6, dash);
    const shared = tagNumber(tags, 'shared');
    const master = tagNumber(tags, 'master');
    const root = unescape(rawRoot ?? '');
    infos.push({
      mountId: Number(mountId),
      parentId: Number(parentId),
      device: device ?? '',
      root: root.endsWith(DELETED) ? root.slice(0, -DELETED.length) : root,
      mountPoint: unescape(rawMountPoint),
      deleted: root.endsWith(DELETED),
      options: options.split(','),
      ...(shared === undefined ? {} : { shared }),
      ...(master === undefined ? {} : { master }),
      fsType: unescape(fsType),
      source: unescape(source ?? ''),
      superOptions: (superOptions ?? '').split(','),
    });
  }
  return infos;
}

/** The mounts that a process sees. Throws NotFound when the process is gone. */
export async function readMountinfo(pid: number | 'self' = 'self'): Promise<MountInfo[]> {
  const path = `/proc/${String(pid)}/mountinfo`;
  try {
    return parseMountinfo(await readFile(path, 'utf8'));
  } catch (error) {
    throw fromNodeError(error, `read ${path}`);
  }
}

export function isBelow(path: string, directory: string): boolean {
  return directory === '/' ? path !== '/' && path.startsWith('/') : path.startsWith(`${directory}/`);
}

/** Mounts strictly below a directory, in the order in which they can be unmounted: what is inside or on top of another first. */
export function mountsBelow(infos: readonly MountInfo[], directory: string): MountInfo[] {
  return orderForUnmount(infos.filter((info) => isBelow(info.mountPoint, directory)));
}

/** Mounts on exactly this path, the uppermost first. */
export function mountsOn(infos: readonly MountInfo[], path: string): MountInfo[] {
  return orderForUnmount(infos.filter((info) => info.mountPoint === path));
}

/**
 * Children before their parents. Of two with one parent, the one with the shorter path covers the other: had it been
 * there first, the other would have become its child.
 */
function orderForUnmount(infos: readonly MountInfo[]): MountInfo[] {
  const ids = new Set(infos.map((info) => info.mountId));
  const childrenOf = Map.groupBy(infos, (info) =>
    ids.has(info.parentId) && info.parentId !== info.mountId ? info.parentId : undefined,
  );
  const ordered: MountInfo[] = [];
  const add = (parentId: number | undefined): void => {
    const children = childrenOf.get(parentId) ?? [];
    for (const child of children.toSorted((a, b) => a.mountPoint.length - b.mountPoint.length)) {
      add(child.mountId);
      ordered.push(child);
    }
  };
  add(undefined);
  return ordered;
}

/** The mount that `path` lies on, as far as text tells: the longest mount point that is a prefix, uppermost of several. */
export function mountOf(infos: readonly MountInfo[], path: string): MountInfo | undefined {
  let best: MountInfo | undefined;
  for (const info of infos) {
    if (info.mountPoint !== path && !isBelow(path, info.mountPoint)) continue;
    if (best === undefined || info.mountPoint.length >= best.mountPoint.length) best = info;
  }
  return best;
}
