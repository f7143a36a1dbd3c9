import type { LinuxContainerResources } from '../../cri/gen/api.ts';
import { failedPrecondition, invalidArgument } from '../../lib/errors.ts';
import { boundedShares } from '../../linux/cgroup-weight.ts';
import type { HostFacts, ResourcesInput } from '../oci/container-spec-input.ts';
import { clampOomScoreAdj } from '../oci/resources.ts';
import type { Limits } from '../parts.ts';
import type { ContainerRecord } from '../store/container-record.ts';

/** CRI's resources in our units, and shares as the kernel takes them; zero, empty and absent mean that nothing is said. */
export function resourcesInput(resources: LinuxContainerResources | undefined): ResourcesInput {
  if (resources === undefined) return {};
  return {
    cpuShares: resources.cpuShares === 0n ? 0 : boundedShares(Number(resources.cpuShares)),
    cpuQuotaUs: Number(resources.cpuQuota),
    cpuPeriodUs: Number(resources.cpuPeriod),
    cpusetCpus: resources.cpusetCpus,
    cpusetMems: resources.cpusetMems,
    memoryLimitBytes: Number(resources.memoryLimitInBytes),
    memorySwapLimitBytes: Number(resources.memorySwapLimitInBytes),
    hugepageLimits: resources.hugepageLimits.map(({ pageSize, limit }) => ({ pageSize, limitBytes: Number(limit) })),
    unified: resources.unified,
    oomScoreAdj: Number(resources.oomScoreAdj),
  };
}

/** As ContainerStatus shows them. */
export function shownResources(resources: ResourcesInput): LinuxContainerResources {
  const number = (value: number | undefined): bigint => BigInt(value ?? 0);
  return {
    cpuShares: number(resources.cpuShares),
    cpuQuota: number(resources.cpuQuotaUs),
    cpuPeriod: number(resources.cpuPeriodUs),
    cpusetCpus: resources.cpusetCpus ?? '',
    cpusetMems: resources.cpusetMems ?? '',
    memoryLimitInBytes: number(resources.memoryLimitBytes),
    memorySwapLimitInBytes: number(resources.memorySwapLimitBytes),
    hugepageLimits: (resources.hugepageLimits ?? []).map(({ pageSize, limitBytes }) => ({
      pageSize,
      limit: BigInt(limitBytes),
    })),
    unified: { ...resources.unified },
    oomScoreAdj: number(resources.oomScoreAdj),
  };
}

/** What a container has: as it was made, or as it was updated since. */
export function resourcesOf({ meta, status }: Pick<ContainerRecord, 'meta' | 'status'>): ResourcesInput {
  return status.resources ?? resourcesInput(meta.config.linux?.resources);
}

/** What it will have: what the update does not say stays. */
export function mergeResources(now: ResourcesInput, asked: LinuxContainerResources): ResourcesInput {
  const wanted = resourcesInput(asked);
  const said = Object.entries(wanted).filter(
    ([name, value]) => !['hugepageLimits', 'unified'].includes(name) && value !== 0 && value !== '',
  );
  const sizes = new Map((now.hugepageLimits ?? []).map((limit) => [limit.pageSize, limit]));
  for (const limit of wanted.hugepageLimits ?? []) sizes.set(limit.pageSize, limit);
  return {
    ...now,
    ...Object.fromEntries(said),
    hugepageLimits: [...sizes.values()],
    unified: { ...now.unified, ...wanted.unified },
  };
}

/**
 * What of it is a matter of the container's cgroup and of the processes in it. Huge pages that did not change are left out, and a limit of
 * nothing for a size that this host does not have. Throws FailedPrecondition for those that it cannot limit, InvalidArgument for `unified`
 * without cgroup v2.
 */
export function limitsOf(
  host: Pick<HostFacts, 'cgroupMode' | 'swapAccounting' | 'hugePageSizes' | 'oomScoreAdj' | 'mayLowerOomScoreAdj'>,
  wanted: ResourcesInput,
  now: ResourcesInput = {},
): Limits {
  const had = new Map((now.hugepageLimits ?? []).map(({ pageSize, limitBytes }) => [pageSize, limitBytes]));
  const hugepages = (wanted.hugepageLimits ?? []).filter(
    ({ pageSize, limitBytes }) =>
      had.get(pageSize) !== limitBytes && (limitBytes !== 0 || host.hugePageSizes.includes(pageSize)),
  );
  const impossible = hugepages.find(({ pageSize }) => !host.hugePageSizes.includes(pageSize));
  if (impossible !== undefined) {
    const possible = host.hugePageSizes.length === 0 ? 'none' : host.hugePageSizes.join(', ');
    throw failedPrecondition(`huge pages of ${impossible.pageSize}: this host can limit ${possible}`);
  }
  const unified = Object.keys(wanted.unified ?? {}).length === 0 ? undefined : wanted.unified;
  if (unified !== undefined && host.cgroupMode !== 'v2') {
    throw invalidArgument(`resources.unified needs cgroup v2; this host has ${host.cgroupMode}`);
  }
  const oomScoreAdj = (of: ResourcesInput): number => clampOomScoreAdj(host, of.oomScoreAdj) ?? host.oomScoreAdj;
  const [from, to] = [oomScoreAdj(now), oomScoreAdj(wanted)];
  const { cpuShares, cpuQuotaUs, cpuPeriodUs, cpusetCpus, cpusetMems, memoryLimitBytes, memorySwapLimitBytes } = wanted;
  return {
    ...said('cpuShares', cpuShares),
    ...said('cpuQuotaUs', cpuQuotaUs),
    ...said('cpuPeriodUs', cpuPeriodUs),
    ...said('cpusetCpus', cpusetCpus),
    ...said('cpusetMems', cpusetMems),
    ...said('memoryLimitBytes', memoryLimitBytes),
    ...(host.swapAccounting ? said('memorySwapLimitBytes', memorySwapLimitBytes) : {}),
    ...(hugepages.length === 0 ? {} : { hugepageLimits: hugepages }),
    ...said('unified', unified),
    ...(from === to ? {} : { oomScoreAdj: { from, to } }),
  };
}

/** Nothing for zero, empty and absent. */
function said<Key extends string, Value>(key: Key, value: Value | undefined): Partial<Record<Key, Value>> {
  const nothing = value === undefined || value === 0 || value === '';
  return nothing ? {} : ({ [key]: value } as Partial<Record<Key, Value>>);
}
