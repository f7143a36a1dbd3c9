import type { CgroupUsage } from './cgroup-usage.ts';

/** What the field's metrics tell of a cgroup beyond {@link CgroupUsage}. Absent is what this host does not count. */
export interface CgroupDetail {
  readonly usage: CgroupUsage;
  readonly cpu: CpuDetail;
  readonly memory?: MemoryDetail;
  readonly limits: CgroupLimits;
  readonly pids?: PidsDetail;
  readonly io: readonly DeviceIo[];
  readonly hugepages: readonly HugepageUse[];
  /** Processes that the kernel has killed for want of memory. */
  readonly oomKills?: bigint;
}

export interface CpuDetail {
  readonly userNs: bigint;
  readonly systemNs: bigint;
  /** Of the quota: periods in which there was something to run, and those in which the quota was used up. */
  readonly periods: bigint;
  readonly throttledPeriods: bigint;
  readonly throttledNs: bigint;
}

/** In bytes. */
export interface MemoryDetail {
  readonly kernel?: bigint;
  /** The most that was ever in use. */
  readonly peak?: bigint;
  /** How often the limit was met. */
  readonly limitHits?: bigint;
  /** Page faults in the cgroup itself; those of {@link CgroupUsage} are with all below it. */
  readonly ownPageFaults: bigint;
  readonly ownMajorPageFaults: bigint;
}

/** What it may use. An absent limit is none. */
export interface CgroupLimits {
  /** On the scale of v1's cpu.shares. */
  readonly cpuShares?: bigint;
  readonly cpuPeriodUs?: bigint;
  readonly cpuQuotaUs?: bigint;
  readonly memory?: bigint;
  readonly memoryReservation?: bigint;
  /** On v1 of memory and swap together, on v2 of swap alone: as the field tells it. */
  readonly memorySwap?: bigint;
}

export interface PidsDetail {
  /** Each thread is one task. */
  readonly tasks: bigint;
  /** Absent: as many as the host can take. */
  readonly limit?: bigint;
}

/** Since the cgroup was made. */
export interface DeviceIo {
  readonly major: number;
  readonly minor: number;
  readonly readBytes: bigint;
  readonly writeBytes: bigint;
  readonly reads: bigint;
  readonly writes: bigint;
}

export interface HugepageUse {
  /** As the kernel's file names have it: `2MB`. */
  readonly pageSize: string;
  readonly bytes: bigint;
  /** Only v1 remembers. */
  readonly peakBytes?: bigint;
}
