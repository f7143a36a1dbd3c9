import type { LinuxContainerResources } from '../../cri/gen/api.ts';
import { invalidArgument } from '../../lib/errors.ts';
import { isCpuList, notIn } from '../../linux/cpu-list.ts';
import type { CgroupTree } from '../parts.ts';

/** Microseconds: what the kernel takes. */
const [MIN_PERIOD, MAX_PERIOD] = [1_000n, 1_000_000n];
const MIN_QUOTA = 1_000n;
const MAX_OOM_SCORE_ADJ = 1_000n;

/**
 * Looks at CRI's resources as they come, the same when something is made and when it is updated. Zero and empty say nothing. Shares beyond
 * what the kernel has are not wrong: they are bounded ({@link boundedShares}). What the host has is asked only
 * where a set is given. Throws InvalidArgument, which names the field, behind `prefix` (`overhead.`, say).
 */
export async function checkResources(
  resources: LinuxContainerResources | undefined,
  cgroups: Pick<CgroupTree, 'hostSets'>,
  prefix = '',
): Promise<void> {
  if (resources === undefined) return;
  const numbers: [string, bigint, boolean, string][] = [
    ['cpu_shares', resources.cpuShares, resources.cpuShares >= 0n, 'or more'],
    [
      'cpu_period',
      resources.cpuPeriod,
      resources.cpuPeriod >= MIN_PERIOD && resources.cpuPeriod <= MAX_PERIOD,
      `or between ${String(MIN_PERIOD)} and ${String(MAX_PERIOD)} µs`,
    ],
    [
      'cpu_quota',
      resources.cpuQuota,
      orUnlimited(resources.cpuQuota, MIN_QUOTA),
      'or -1 (no limit) or 1000 µs or more',
    ],
    bytes('memory_limit_in_bytes', resources.memoryLimitInBytes),
    bytes('memory_swap_limit_in_bytes', resources.memorySwapLimitInBytes),
    [
      'oom_score_adj',
      resources.oomScoreAdj,
      resources.oomScoreAdj >= -MAX_OOM_SCORE_ADJ && resources.oomScoreAdj <= MAX_OOM_SCORE_ADJ,
      'or between -1000 and 1000',
    ],
  ];
  for (const [name, value, isFine, allowed] of numbers) {
    if (value !== 0n && !isFine) {
      throw invalidArgument(`${prefix}${name}: ${String(value)} is not 0 (not said) ${allowed}`);
    }
  }
  const { memoryLimitInBytes: memory, memorySwapLimitInBytes: both } = resources;
  if (memory > 0n && both > 0n && both < memory) {
    const words = `is less than memory_limit_in_bytes (${String(memory)}), which is a part of it`;
    throw invalidArgument(`${prefix}memory_swap_limit_in_bytes: ${String(both)} ${words}`);
  }
  const { cpusetCpus, cpusetMems } = resources;
  if (cpusetCpus === '' && cpusetMems === '') return;
  const { cpus, mems } = await cgroups.hostSets();
  checkSet(`${prefix}cpuset_cpus`, cpusetCpus, cpus);
  checkSet(`${prefix}cpuset_mems`, cpusetMems, mems);
}

function bytes(name: string, value: bigint): [string, bigint, boolean, string] {
  return [name, value, orUnlimited(value, 1n), 'or -1 (no limit) or more'];
}

function orUnlimited(value: bigint, least: bigint): boolean {
  return value === -1n || value >= least;
}

function checkSet(name: string, set: string, there: string): void {
  if (set === '') return;
  if (!isCpuList(set)) throw invalidArgument(`${name}: ${JSON.stringify(set)} is no list of numbers such as 0-3,5`);
  const missing = notIn(set, there);
  if (missing !== '') throw invalidArgument(`${name}: this host has no ${missing}, only ${there}`);
}
