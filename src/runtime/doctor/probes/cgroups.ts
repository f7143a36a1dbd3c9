import { join } from 'node:path';
import { isOwnCgroup, podOfCgroup, taskOfCgroup } from '../../cgroup-layout.ts';
import type { RuntimeContext } from '../../context.ts';
import type { Found } from '../inventory.ts';
import { OBJECT_ID } from './object-id.ts';

/** Groups of pods and, in those, of containers. */
export async function findCgroups(
  rt: Pick<RuntimeContext, 'cgroups' | 'settings'>,
  isOwned: (path: string) => boolean,
): Promise<Found[]> {
  const parent = rt.settings.cgroupParent;
  const found: Found[] = [];
  for (const name of await rt.cgroups.children(parent)) {
    const path = join(parent, name);
    if (isOwnCgroup(rt.settings, path)) continue;
    const pod = podOfCgroup(rt.settings, name);
    if (pod === undefined) {
      found.push({ kind: 'cgroup', key: path, foreign: 'a group that Gantry does not make' });
      continue;
    }
    const ids = OBJECT_ID.test(pod) ? { ids: [pod] } : {};
    found.push({ kind: 'cgroup', key: path, ...ids, note: await population(rt, path) });
    // Those of a pod that nobody owns go with it.
    if (!isOwned(path)) continue;
    for (const child of await rt.cgroups.children(path)) {
      const id = taskOfCgroup(child);
      if (id === undefined) continue;
      const key = join(path, child);
      found.push({ kind: 'cgroup', key, ids: [id], note: await population(rt, key) });
    }
  }
  return found;
}

async function population({ cgroups }: Pick<RuntimeContext, 'cgroups'>, path: string): Promise<string> {
  const count = (await cgroups.procs(path, true).catch(() => [])).length;
  return count === 1 ? '1 process in it' : `${String(count)} processes in it`;
}
