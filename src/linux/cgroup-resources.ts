import { invalidArgument } from '../lib/errors.ts';
import type { CgroupHost } from './cgroup-host.ts';
import { boundedShares, sharesToWeight } from './cgroup-weight.ts';

/** Limits of a cgroup. A container's first ones are set by the OCI runtime, all others here. Absent: stays as it is. */
export interface CgroupResources {
  readonly cpuShares?: number;
  /** Microseconds of CPU time per period; -1 for no limit. */
  readonly cpuQuotaUs?: number;
  readonly cpuPeriodUs?: number;
  /** In the kernel's list format: `0-3,5`. */
  readonly cpusetCpus?: string;
  readonly cpusetMems?: string;
  /** -1 for no limit. */
  readonly memoryLimitBytes?: number;
  /** Memory and swap together; -1 for no limit. Only with a memory limit. */
  readonly memorySwapLimitBytes?: number;
  readonly hugepageLimits?: readonly { readonly pageSize: string; readonly limitBytes: number }[];
  /** Files of cgroup v2 by name, with what is written to them. */
  readonly unified?: Readonly<Record<string, string>>;
  /** Of each process in it and below that has the one: the other. Only in an update. */
  readonly oomScoreAdj?: { readonly from: number; readonly to: number };
}

export interface CgroupWrite {
  readonly controller: string;
  readonly file: string;
  readonly value: string;
}

const DEFAULT_PERIOD_US = 100_000;
const UNIFIED_NAME = /^([a-z]+)\.[A-Za-z0-9._]+$/;

/**
 * The files to write. Memory comes last: it is what the kernel may refuse for reasons of the moment. Throws InvalidArgument for a
 * `unified` key that names no file of a controller, or without cgroup v2.
 */
export function resourceWrites(
  mode: CgroupHost['mode'],
  resources: CgroupResources,
  weightOf: (shares: number) => number = sharesToWeight,
): CgroupWrite[] {
  const { cpuShares, cpusetCpus, cpusetMems } = resources;
  const v2 = mode === 'v2';
  const writes: CgroupWrite[] = [];
  const add = (controller: string, file: string, value: string): void => {
    writes.push({ controller, file, value });
  };
  if (cpuShares !== undefined) {
    if (v2) add('cpu', 'cpu.weight', String(weightOf(cpuShares)));
    else add('cpu', 'cpu.shares', String(boundedShares(cpuShares)));
  }
  writes.push(...cpuTimeWrites(v2, resources));
  if (cpusetCpus !== undefined && cpusetCpus !== '') add('cpuset', 'cpuset.cpus', cpusetCpus);
  if (cpusetMems !== undefined && cpusetMems !== '') add('cpuset', 'cpuset.mems', cpusetMems);
  for (const { pageSize, limitBytes } of resources.hugepageLimits ?? []) {
    add('hugetlb', `hugetlb.${pageSize}.${v2 ? 'max' : 'limit_in_bytes'}`, String(limitBytes));
  }
  for (const [name, value] of Object.entries(resources.unified ?? {})) {
    const controller = UNIFIED_NAME.exec(name)?.[1];
    if (controller === undefined) throw invalidArgument(`resources.unified: ${JSON.stringify(name)} is no cgroup file`);
    if (!v2) throw invalidArgument(`resources.unified needs cgroup v2; this host has ${mode}`);
    add(controller, name, value);
  }
  writes.push(...memoryWrites(v2, resources));
  return writes;
}

function cpuTimeWrites(v2: boolean, { cpuQuotaUs, cpuPeriodUs }: CgroupResources): CgroupWrite[] {
  if (cpuQuotaUs === undefined && cpuPeriodUs === undefined) return [];
  const period = String(cpuPeriodUs ?? DEFAULT_PERIOD_US);
  const write = (file: string, value: string): CgroupWrite => ({ controller: 'cpu', file, value });
  if (v2) return [write('cpu.max', `${orMax(cpuQuotaUs ?? -1)} ${period}`)];
  return [
    write('cpu.cfs_period_us', period),
    ...(cpuQuotaUs === undefined ? [] : [write('cpu.cfs_quota_us', String(cpuQuotaUs))]),
  ];
}

function memoryWrites(v2: boolean, { memoryLimitBytes: limit, memorySwapLimitBytes: both }: CgroupResources) {
  if (limit === undefined) return [];
  const write = (file: string, value: string): CgroupWrite => ({ controller: 'memory', file, value });
  if (!v2) {
    return [
      ...(both === undefined ? [] : [write('memory.memsw.limit_in_bytes', String(both))]),
      write('memory.limit_in_bytes', String(limit)),
    ];
  }
  if (both !== undefined && both >= 0 && (limit < 0 || both < limit)) {
    throw invalidArgument(`the limit of memory and swap, ${String(both)}, is below that of memory, ${String(limit)}`);
  }
  return [
    ...(both === undefined ? [] : [write('memory.swap.max', both < 0 ? 'max' : String(both - limit))]),
    write('memory.max', orMax(limit)),
  ];
}

function orMax(value: number): string {
  return value < 0 ? 'max' : String(value);
}
