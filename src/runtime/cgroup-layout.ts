import { basename, join, normalize } from 'node:path';
import { invalidArgument } from '../lib/errors.ts';
import { isCgroupPath } from '../linux/cgroups.ts';
import { containerScope, isSlice, sliceBelow, slicePath, unitOfCgroup } from '../linux/systemd-names.ts';
import type { CgroupDriver, RuntimeSettings } from './settings.ts';

/** Where the cgroups of this Gantry are and what they are called, by the driver that they are made with. Pure. */

export type CgroupSettings = Pick<RuntimeSettings, 'cgroupParent' | 'cgroupDriver' | 'instance'>;

export interface OwnCgroups {
  /** In which the others are, where systemd has to know of them. */
  readonly scope?: string;
  readonly daemon: string;
  readonly monitors: string;
}

const ID = /^[0-9a-f]{64}$/;
const ID_AT_THE_END = /-([0-9a-f]{64})\.slice$/;

/** The daemon's own and its monitors': neither in the login session's, nor in one that ends with a service. */
export function ownCgroups({ cgroupParent, cgroupDriver }: CgroupSettings): OwnCgroups {
  if (cgroupDriver !== 'systemd') {
    return { daemon: join(cgroupParent, 'daemon'), monitors: join(cgroupParent, 'monitors') };
  }
  const scope = join(cgroupParent, `${basename(cgroupParent, '.slice')}-daemon.scope`);
  return { scope, daemon: join(scope, 'daemon'), monitors: join(scope, 'monitors') };
}

/** Whether a cgroup is one of Gantry's own, or in one: no pod's, and not to be taken away with one. What an OCI runtime is tried in is one, too. */
export function isOwnCgroup(settings: CgroupSettings, path: string): boolean {
  const { cgroupParent } = settings;
  if (!path.startsWith(`${cgroupParent}/`)) return path === cgroupParent;
  const top = join(cgroupParent, path.slice(cgroupParent.length + 1).split('/', 1)[0] ?? '');
  const { scope, daemon, monitors } = ownCgroups(settings);
  return (
    (scope === undefined ? [daemon, monitors] : [scope]).includes(top) ||
    top.startsWith(probeCgroup(settings, 'probe-', ''))
  );
}

/** The cgroup of a pod, below the parent: by its uid, or by its sandbox's id. */
export function podCgroup({ cgroupParent, cgroupDriver }: CgroupSettings, name: string): string {
  return cgroupDriver === 'systemd' ? sliceBelow(cgroupParent, `pod${name}`) : join(cgroupParent, `pod${name}`);
}

/** What {@link podCgroup} was given, of the name of a cgroup below the parent. Undefined: it is no pod's. */
export function podOfCgroup({ cgroupParent, cgroupDriver }: CgroupSettings, name: string): string | undefined {
  if (cgroupDriver !== 'systemd') return /^pod(.+)$/.exec(name)?.[1];
  const before = `${basename(cgroupParent, '.slice')}-pod`;
  return name.startsWith(before) && isSlice(name)
    ? name.slice(before.length, -'.slice'.length) || undefined
    : undefined;
}

/**
 * The pod's cgroup as a request names it: CRI's `cgroup_parent`, which is a path, or with the systemd driver a slice, by its name or by its
 * path; empty: one of our own. Throws InvalidArgument for the other driver's word, as then two would make and change the same cgroups.
 */
export function requestedCgroup(settings: CgroupSettings, parent: string, id: string): string {
  if (parent === '') return podCgroup(settings, id);
  if (!isCgroupPath(`/${parent}`)) throw invalidArgument(`cgroup_parent ${JSON.stringify(parent)} is no cgroup path`);
  const path = normalize(`/${parent}`).replace(/\/+$/, '');
  if (isOwnCgroup(settings, path)) throw invalidArgument(`cgroup_parent ${parent}: that cgroup is Gantry's own`);
  const unit = unitOfCgroup(path);
  if (settings.cgroupDriver !== 'systemd') {
    if (unit === undefined) return path;
    throw invalidArgument(
      `cgroup_parent ${parent} is a unit of systemd's, but Gantry's cgroup driver is cgroupfs: both must use the same one`,
    );
  }
  if (unit === undefined || !isSlice(unit)) {
    throw invalidArgument(
      `cgroup_parent ${parent} is no slice, but Gantry's cgroup driver is systemd: both must use the same one`,
    );
  }
  const expanded = slicePath(unit);
  if (parent.includes('/') && path !== expanded) {
    throw invalidArgument(`cgroup_parent ${parent}: the slice ${unit} is at ${expanded}`);
  }
  if (isOwnCgroup(settings, expanded)) throw invalidArgument(`cgroup_parent ${parent}: that cgroup is Gantry's own`);
  return expanded;
}

/** Of a container, or of a sandbox's own process: below the pod's, by the same driver. */
export function taskCgroup(pod: string, driver: CgroupDriver, { instance }: CgroupSettings, id: string): string {
  return driver === 'systemd' ? containerScope(pod, scopePrefix(instance), id) : join(pod, id);
}

/** Where an OCI runtime that is tried puts its container; nothing else is kept of it. */
export function probeCgroup(
  { cgroupParent, cgroupDriver, instance }: CgroupSettings,
  id: string,
  end = '.scope',
): string {
  if (cgroupDriver !== 'systemd') return join(cgroupParent, id);
  return join(cgroupParent, `${scopePrefix(instance)}-${id.replaceAll('-', '_')}${end}`);
}

/** With which the names of our scopes begin. */
export function scopePrefix(instance: string): string {
  return `gantry-${instance}`;
}

/** Whose cgroup that is, by its name in its pod's. Undefined: no container's. */
export function taskOfCgroup(name: string): string | undefined {
  return ID.test(name) ? name : ID_AT_THE_END.exec(name)?.[1];
}
