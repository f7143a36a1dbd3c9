import { basename } from 'node:path';
import type { Op } from '../../../lib/abort.ts';
import { isSlice, slicePath } from '../../../linux/systemd-names.ts';
import { isSystemdHere, type SystemdUnits } from '../../../linux/systemd-units.ts';
import { podOfCgroup, scopePrefix, taskOfCgroup } from '../../cgroup-layout.ts';
import type { RuntimeContext } from '../../context.ts';
import type { Found } from '../inventory.ts';

export type UnitLister = Pick<SystemdUnits, 'list' | 'stop'>;

/**
 * Units of systemd's that carry this instance's id or are below its slice, and have no cgroup that could be found: a scope whose container
 * nobody remembers, a slice of a pod whose directory somebody has removed. Those that are seen as cgroups are findings already.
 */
export async function findUnits(
  op: Op,
  { cgroups, settings }: Pick<RuntimeContext, 'cgroups' | 'settings'>,
  units: UnitLister,
  isOwned: (cgroupPath: string) => boolean,
): Promise<Found[]> {
  if (!(await isSystemdHere())) return [];
  const prefix = scopePrefix(settings.instance);
  const patterns = [`${prefix}-*.scope`];
  if (settings.cgroupDriver === 'systemd') patterns.push(`${basename(settings.cgroupParent, '.slice')}-pod*.slice`);
  const found: Found[] = [];
  for (const { name, activeState } of await units.list(op, ...patterns)) {
    const scopeOf = name.startsWith(`${prefix}-`) ? /-([0-9a-f]{64})\.scope$/.exec(name)?.[1] : undefined;
    if (scopeOf !== undefined) {
      found.push({ kind: 'systemd-unit', key: name, ids: [scopeOf], note: activeState });
      continue;
    }
    if (!isSlice(name) || isOwned(slicePath(name)) || (await cgroups.exists(slicePath(name)))) continue;
    const id = taskOfCgroup(name) ?? podOfCgroup(settings, name);
    found.push({ kind: 'systemd-unit', key: name, ...(id === undefined ? {} : { ids: [id] }), note: activeState });
  }
  return found;
}
