import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { messageOf } from '../lib/errors.ts';
import { readMountinfo, type MountInfo } from './mountinfo.ts';

/** Where this machine keeps its cgroups. */
export interface CgroupHost {
  /** `v2`: one tree. `v1`: a tree per controller. `hybrid`: v1 trees that carry the controllers, beside a v2 tree. */
  readonly mode: 'v1' | 'hybrid' | 'v2';
  /** v1 trees: one for each mount, with all the controllers on it (`name=systemd` among them). */
  readonly v1: readonly { readonly mountPoint: string; readonly controllers: readonly string[] }[];
  /** The v2 tree. */
  readonly unified?: { readonly mountPoint: string; readonly controllers: readonly string[] };
  /** Why pods cannot be limited here, in one line that says what to do. */
  readonly unusable?: string;
}

/** Without these no pod can be run as asked. */
const NEEDED = ['cpu', 'memory', 'pids'] as const;
const V1_OPTIONS_THAT_ARE_NO_CONTROLLERS = new Set([
  'rw',
  'ro',
  'xattr',
  'clone_children',
  'noprefix',
  'none',
  'seclabel',
]);

/** Pure: which layout these mounts make. `unifiedControllers` is the v2 root's cgroup.controllers. */
export function describeCgroups(
  infos: readonly MountInfo[],
  unifiedControllers: (mountPoint: string) => readonly string[],
): CgroupHost {
  const v1 = new Map<string, { mountPoint: string; controllers: readonly string[] }>();
  for (const info of infos) {
    if (info.fsType !== 'cgroup') continue;
    const controllers = info.superOptions.filter(
      (option) =>
        option !== '' &&
        !V1_OPTIONS_THAT_ARE_NO_CONTROLLERS.has(option) &&
        (!option.includes('=') || option.startsWith('name=')),
    );
    const key = [...controllers].sort().join(',');
    // The same tree may be mounted twice; the first mount is the system's own.
    if (controllers.length > 0 && !v1.has(key)) v1.set(key, { mountPoint: info.mountPoint, controllers });
  }
  const unifiedMount = infos.find((info) => info.fsType === 'cgroup2');
  const unified =
    unifiedMount === undefined
      ? undefined
      : { mountPoint: unifiedMount.mountPoint, controllers: unifiedControllers(unifiedMount.mountPoint) };
  const trees = [...v1.values()];
  const carrying = trees.flatMap((tree) => tree.controllers.filter((name) => !name.startsWith('name=')));
  const mode = carrying.length === 0 && unified !== undefined ? 'v2' : unified === undefined ? 'v1' : 'hybrid';
  const available = mode === 'v2' ? (unified?.controllers ?? []) : carrying;
  const missing = NEEDED.filter((name) => !available.includes(name));
  const readOnly = infos.some((info) => info.fsType.startsWith('cgroup') && info.options.includes('ro'));
  let unusable: string | undefined;
  if (trees.length === 0 && unified === undefined)
    unusable = 'no cgroup file system is mounted: mount cgroup2 on /sys/fs/cgroup';
  else if (missing.length > 0)
    unusable = `cgroup controllers missing: ${missing.join(', ')} (see the kernel's cgroup_disable= and cgroup_enable= parameters)`;
  else if (readOnly)
    unusable = 'cgroups are mounted read-only: Gantry needs them writable (a container without --privileged?)';
  return {
    mode,
    v1: mode === 'v2' ? [] : trees,
    ...(unified === undefined ? {} : { unified }),
    ...(unusable === undefined ? {} : { unusable }),
  };
}

/** Looks at this machine. Never throws: what is wrong is in `unusable`. */
export async function detectCgroups(): Promise<CgroupHost> {
  try {
    const infos = await readMountinfo();
    const controllers = new Map<string, readonly string[]>();
    for (const { fsType, mountPoint } of infos) {
      if (fsType !== 'cgroup2') continue;
      const text = await readFile(join(mountPoint, 'cgroup.controllers'), 'utf8').catch(() => '');
      controllers.set(mountPoint, text.trim().split(/\s+/).filter(Boolean));
    }
    return describeCgroups(infos, (mountPoint) => controllers.get(mountPoint) ?? []);
  } catch (error) {
    return { mode: 'v1', v1: [], unusable: `cgroups cannot be looked at: ${messageOf(error)}` };
  }
}
