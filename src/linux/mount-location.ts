import { isBelow, mountOf, type MountInfo } from './mountinfo.ts';

/**
 * Where a directory really is: on which file system, and where in it. Unlike a path it is the same in every mount
 * namespace and through every bind mount, so a mount on a volume's directory is found however it was made.
 */
export interface Location {
  readonly device: string;
  readonly path: string;
}

/** Of a path that is no mount point, or of the directory under the mounts on it. */
export function locate(infos: readonly MountInfo[], path: string): Location | undefined {
  const others = infos.filter((info) => info.mountPoint !== path && !isBelow(info.mountPoint, path));
  const mount = mountOf(others, path);
  return mount === undefined ? undefined : inside(mount, path);
}

/** The mounts, of one namespace's table, that sit on this directory or anywhere below it. */
export function mountsWithin(infos: readonly MountInfo[], location: Location): MountInfo[] {
  const byId = new Map(infos.map((info) => [info.mountId, info]));
  return infos.filter((info) => {
    const parent = byId.get(info.parentId);
    // A deleted directory's path may by now be that of another one.
    if (parent === undefined || parent === info || parent.deleted) return false;
    const at = inside(parent, info.mountPoint);
    return at.device === location.device && (at.path === location.path || isBelow(at.path, location.path));
  });
}

function inside(mount: MountInfo, path: string): Location {
  const relative = mount.mountPoint === '/' ? path : path.slice(mount.mountPoint.length);
  const joined = mount.root === '/' ? relative : `${mount.root}${relative}`;
  return { device: mount.device, path: joined === '' ? '/' : joined.replace(/(.)\/+$/, '$1') };
}
