import { access, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { CgroupHost } from '../../linux/cgroup-host.ts';
import { hugePageSizes } from '../../linux/huge-pages.ts';
import { capabilitiesOfMask } from './capabilities.ts';
import type { HostFacts } from './container-spec-input.ts';

/** What this process may do and what this host has. Once at start. */
export async function gatherHostFacts(cgroups: CgroupHost): Promise<HostFacts> {
  const status = await readFile('/proc/self/status', 'utf8');
  const mask = (name: string): string => new RegExp(`^${name}:\\s*([0-9a-f]+)$`, 'm').exec(status)?.[1] ?? '0';
  const own = capabilitiesOfMask(mask('CapEff'));
  const lastCapability = Number((await readFile('/proc/sys/kernel/cap_last_cap', 'utf8')).trim());
  return {
    cgroupMode: cgroups.mode,
    lastCapability,
    boundingCapabilities: capabilitiesOfMask(mask('CapBnd')).slice(0, lastCapability + 1),
    oomScoreAdj: Number((await readFile('/proc/self/oom_score_adj', 'utf8')).trim()),
    mayLowerOomScoreAdj: own.includes('CAP_SYS_RESOURCE'),
    swapAccounting: await hasSwapAccounting(cgroups),
    hugePageSizes: hasHugetlb(cgroups) ? await hugePageSizes() : [],
    appArmor: (await readFile('/sys/module/apparmor/parameters/enabled', 'utf8').catch(() => '')).trim() === 'Y',
    seLinux: await exists('/sys/fs/selinux/enforce'),
  };
}

/** On a hybrid layout a controller of the v2 tree is out of the OCI runtime's reach. */
function hasHugetlb({ mode, v1, unified }: CgroupHost): boolean {
  const controllers = mode === 'v2' ? (unified?.controllers ?? []) : v1.flatMap((tree) => tree.controllers);
  return controllers.includes('hugetlb');
}

async function hasSwapAccounting(cgroups: CgroupHost): Promise<boolean> {
  if (cgroups.mode === 'v2') {
    const root = cgroups.unified?.mountPoint;
    if (root === undefined) return false;
    // The root has no such file; every cgroup below it has, or none.
    for (const entry of await readdir(root, { withFileTypes: true })) {
      if (entry.isDirectory() && (await exists(join(root, entry.name, 'memory.swap.max')))) return true;
    }
    return false;
  }
  const memory = cgroups.v1.find((tree) => tree.controllers.includes('memory'));
  return memory !== undefined && (await exists(join(memory.mountPoint, 'memory.memsw.limit_in_bytes')));
}

async function exists(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  );
}
