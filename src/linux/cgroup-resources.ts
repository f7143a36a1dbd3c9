import type { CgroupHost } from './cgroup-host.ts';

/** Limits of a cgroup of our own (a pod's). Containers' limits are set by the OCI runtime. */
export interface CgroupResources {
  readonly cpuShares?: number;
  /** Microseconds of CPU time per period; -1 for no limit. */
  readonly cpuQuotaUs?: number;
  readonly cpuPeriodUs?: number;
  /** -1 for no limit. */
  readonly memoryLimitBytes?: number;
}

export interface CgroupWrite {
  readonly controller: string;
  readonly file: string;
  readonly value: string;
}

const DEFAULT_PERIOD_US = 100_000;
const [MIN_SHARES, MAX_SHARES] = [2, 262_144];
const [MIN_WEIGHT, MAX_WEIGHT] = [1, 10_000];

/** cpu.shares (2 … 262144) on the scale of cpu.weight (1 … 10000), linearly as the kernel documents it. */
export function sharesToWeight(shares: number): number {
  const bounded = Math.min(Math.max(shares, MIN_SHARES), MAX_SHARES);
  return MIN_WEIGHT + Math.floor(((bounded - MIN_SHARES) * (MAX_WEIGHT - MIN_WEIGHT)) / (MAX_SHARES - MIN_SHARES));
}

/** The files to write, in order. */
export function resourceWrites(mode: CgroupHost['mode'], resources: CgroupResources): CgroupWrite[] {
  const { cpuShares, cpuQuotaUs, cpuPeriodUs = DEFAULT_PERIOD_US, memoryLimitBytes } = resources;
  const v2 = mode === 'v2';
  const orMax = (value: number): string => (value < 0 ? 'max' : String(value));
  const writes: CgroupWrite[] = [];
  const add = (controller: string, file: string, value: string): void => {
    writes.push({ controller, file, value });
  };
  if (cpuShares !== undefined) {
    if (v2) add('cpu', 'cpu.weight', String(sharesToWeight(cpuShares)));
    else add('cpu', 'cpu.shares', String(Math.max(cpuShares, MIN_SHARES)));
  }
  if (cpuQuotaUs !== undefined) {
    if (v2) add('cpu', 'cpu.max', `${orMax(cpuQuotaUs)} ${String(cpuPeriodUs)}`);
    else {
      add('cpu', 'cpu.cfs_period_us', String(cpuPeriodUs));
      add('cpu', 'cpu.cfs_quota_us', String(cpuQuotaUs));
    }
  }
  if (memoryLimitBytes !== undefined) {
    if (v2) add('memory', 'memory.max', orMax(memoryLimitBytes));
    else add('memory', 'memory.limit_in_bytes', String(memoryLimitBytes));
  }
  return writes;
}
