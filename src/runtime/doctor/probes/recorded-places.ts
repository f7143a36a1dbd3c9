import { realpath } from 'node:fs/promises';
import { errnoOf } from '../../../lib/errors.ts';
import { readMountinfo, type MountInfo } from '../../../linux/mountinfo.ts';
import { bridgePorts } from '../../../linux/network-interfaces.ts';
import type { RuntimeContext } from '../../context.ts';
import type { Found, Owned } from '../inventory.ts';

type Parts = Pick<RuntimeContext, 'namespaces' | 'cgroups'>;

/**
 * Of what must be there and was not found where this configuration has its things: what is in its own place, as it was written down. It
 * may have been made under other settings (folders, instance id, cgroup parent), and is used all the same.
 */
export async function findAtRecordedPlaces(
  parts: Parts,
  owned: readonly Owned[],
  found: readonly Found[],
): Promise<Found[]> {
  const seen = new Set(found.map(nameOf));
  const sought = owned.filter((thing) => thing.needed !== undefined && !seen.has(nameOf(thing)));
  if (sought.length === 0) return [];
  const mounts = await readMountinfo();
  const places: Found[] = [];
  for (const { kind, key } of sought) {
    if (await isThere(parts, mounts, { kind, key })) places.push({ kind, key });
  }
  return places;
}

function nameOf({ kind, key }: Pick<Found, 'kind' | 'key'>): string {
  return `${kind}\0${key}`;
}

async function isThere(
  { namespaces, cgroups }: Parts,
  mounts: readonly MountInfo[],
  { kind, key }: Pick<Owned, 'kind' | 'key'>,
): Promise<boolean> {
  switch (kind) {
    case 'netns':
    case 'pin':
      return (await namespaces.inodeOf(key)) !== undefined;
    case 'tmpfs':
    case 'rootfs': {
      const path = await realPathOf(key);
      return mounts.some(({ mountPoint }) => mountPoint === path);
    }
    case 'directory':
    case 'bundle':
    case 'cni':
      return (await realPathOf(key)) !== undefined;
    case 'cgroup':
      return await cgroups.exists(key);
    case 'cni-bridge':
      return (await bridgePorts(key)) !== undefined;
    default:
      return false;
  }
}

/** Undefined where nothing is. */
async function realPathOf(path: string): Promise<string | undefined> {
  try {
    return await realpath(path);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return undefined;
    throw error;
  }
}
