/** Of a whole pod. */
export interface PodLimits {
  readonly cpuShares?: number;
  readonly cpuQuotaUs?: number;
  readonly cpuPeriodUs?: number;
  readonly memoryLimitBytes?: number;
}

/** What the pod's containers may use together, and what its runtime needs beside them. Absent: nothing is said; below zero: no limit. */
export interface PodResources {
  readonly resources: PodLimits;
  readonly overhead: PodLimits;
}
