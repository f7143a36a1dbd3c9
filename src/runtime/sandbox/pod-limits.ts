import type { LinuxContainerResources, PodSandboxConfig } from '../../cri/gen/api.ts';
import { boundedShares } from '../../linux/cgroup-weight.ts';
import { checkResources } from '../limits/check-resources.ts';
import type { PodLimits, PodResources } from '../limits/pod-resources.ts';
import type { CgroupTree } from '../parts.ts';

const DEFAULT_PERIOD_US = 100_000;

/** As the sandbox was made, or was updated since. */
export function podResourcesOf({
  meta,
  status,
}: {
  readonly meta: { readonly config: PodSandboxConfig };
  readonly status?: { readonly resources?: PodResources };
}): PodResources {
  return status?.resources ?? asked(meta.config.linux?.resources, meta.config.linux?.overhead);
}

interface Said {
  readonly resources?: LinuxContainerResources | undefined;
  readonly overhead?: LinuxContainerResources | undefined;
}

/** Throws InvalidArgument for a number that means nothing; see {@link checkResources}. `prefix` stands before `resources` and `overhead`. */
export async function checkPodResources(
  { cgroups }: { readonly cgroups: Pick<CgroupTree, 'hostSets'> },
  { resources, overhead }: Said,
  prefix = '',
): Promise<void> {
  await checkResources(resources, cgroups, `${prefix}resources.`);
  await checkResources(overhead, cgroups, `${prefix}overhead.`);
}

export function asked(
  resources: LinuxContainerResources | undefined,
  overhead: LinuxContainerResources | undefined,
): PodResources {
  return { resources: limitsOf(resources), overhead: limitsOf(overhead) };
}

/** The limits of the pod's cgroup: both together. Where one of the two is not limited the whole is not, except by shares. */
export function podLimits({ resources, overhead }: PodResources): PodLimits {
  const shares = sum(resources.cpuShares, overhead.cpuShares);
  const memory = resources.memoryLimitBytes;
  const quota = resources.cpuQuotaUs;
  const period = resources.cpuPeriodUs ?? DEFAULT_PERIOD_US;
  // In the period of the first.
  const more = ((overhead.cpuQuotaUs ?? 0) / (overhead.cpuPeriodUs ?? DEFAULT_PERIOD_US)) * period;
  return {
    ...(shares === undefined ? {} : { cpuShares: boundedShares(shares) }),
    ...(quota === undefined
      ? {}
      : { cpuQuotaUs: quota < 0 ? -1 : quota + Math.max(0, Math.round(more)), cpuPeriodUs: period }),
    ...(memory === undefined
      ? {}
      : { memoryLimitBytes: memory < 0 ? -1 : memory + Math.max(0, overhead.memoryLimitBytes ?? 0) }),
  };
}

/** Zero is "not said", and less than zero no limit. */
function limitsOf(resources: LinuxContainerResources | undefined): PodLimits {
  const { cpuShares = 0n, cpuQuota = 0n, cpuPeriod = 0n, memoryLimitInBytes = 0n } = resources ?? {};
  return {
    ...(cpuShares > 0n ? { cpuShares: boundedShares(Number(cpuShares)) } : {}),
    ...(cpuQuota === 0n ? {} : { cpuQuotaUs: Number(cpuQuota) }),
    ...(cpuPeriod > 0n ? { cpuPeriodUs: Number(cpuPeriod) } : {}),
    ...(memoryLimitInBytes === 0n ? {} : { memoryLimitBytes: Number(memoryLimitInBytes) }),
  };
}

function sum(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined && b === undefined ? undefined : (a ?? 0) + (b ?? 0);
}
