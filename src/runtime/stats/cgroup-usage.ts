/** What a cgroup and all below it have used, in the same words for cgroup v1 and v2. Counters are bigints: nanoseconds outgrow a number. */
export interface CgroupUsage {
  /** When the files were read. */
  readonly takenAtWallMs: number;
  readonly cpu: CpuUsage;
  /** Absent where the host accounts no memory. */
  readonly memory?: MemoryUsage;
  readonly ioPressure?: Pressure;
}

export interface CpuUsage {
  /** On all processors together. */
  readonly totalNs: bigint;
  readonly pressure?: Pressure;
}

/** In bytes. */
export interface MemoryUsage {
  readonly usage: bigint;
  /** Absent: none. */
  readonly limit?: bigint;
  /** Pages of files that were not used of late: the kernel takes these back first. */
  readonly inactiveFile: bigint;
  readonly activeFile: bigint;
  /** Anonymous memory. */
  readonly rss: bigint;
  readonly cache: bigint;
  readonly mappedFile: bigint;
  readonly pageFaults: bigint;
  readonly majorPageFaults: bigint;
  /** Absent where the kernel does not account it. */
  readonly swap?: { readonly usage: bigint; readonly limit?: bigint };
  readonly pressure?: Pressure;
}

/** Time in which work stood still for want of a resource (the kernel's PSI). */
export interface Pressure {
  /** Of all tasks at once. */
  readonly full?: PressureLine;
  /** Of at least one. */
  readonly some?: PressureLine;
}

export interface PressureLine {
  /** Percent of the last 10, 60 and 300 seconds. */
  readonly avg10: number;
  readonly avg60: number;
  readonly avg300: number;
  readonly totalUs: bigint;
}

/** Memory that cannot be had back without hurting: what limits and evictions are decided by. Never below 0. */
export function workingSetOf({ usage, inactiveFile }: MemoryUsage): bigint {
  return usage > inactiveFile ? usage - inactiveFile : 0n;
}
