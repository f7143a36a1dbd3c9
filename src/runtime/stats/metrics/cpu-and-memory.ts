import { workingSetOf, type CgroupUsage, type Pressure } from '../cgroup-usage.ts';
import type { MeasuredContainer } from './measured-container.ts';
import { single, wholeSeconds, type MetricDefinition, type MetricValue } from './metric.ts';

const NS_PER_US = 1000n;

export const CPU_METRICS: readonly MetricDefinition<MeasuredContainer>[] = [
  {
    name: 'container_cpu_usage_seconds_total',
    help: 'Processor time used, in seconds.',
    type: 'counter',
    labelKeys: ['cpu'],
    values: ({ cgroup }) => [{ value: wholeSeconds(cgroup.usage.cpu.totalNs), labels: ['total'] }],
  },
  {
    name: 'container_cpu_user_seconds_total',
    help: 'Processor time used outside the kernel, in seconds.',
    type: 'counter',
    values: ({ cgroup }) => single(wholeSeconds(cgroup.cpu.userNs)),
  },
  {
    name: 'container_cpu_system_seconds_total',
    help: 'Processor time used in the kernel, in seconds.',
    type: 'counter',
    values: ({ cgroup }) => single(wholeSeconds(cgroup.cpu.systemNs)),
  },
  {
    name: 'container_cpu_cfs_periods_total',
    help: 'Periods of the processor quota in which there was something to run.',
    type: 'counter',
    values: ({ cgroup }) => single(cgroup.cpu.periods),
  },
  {
    name: 'container_cpu_cfs_throttled_periods_total',
    help: 'Periods in which the processor quota was used up.',
    type: 'counter',
    values: ({ cgroup }) => single(cgroup.cpu.throttledPeriods),
  },
  {
    name: 'container_cpu_cfs_throttled_seconds_total',
    help: 'Time spent waiting for the next period of the processor quota, in seconds.',
    type: 'counter',
    values: ({ cgroup }) => single(wholeSeconds(cgroup.cpu.throttledNs)),
  },
];

type Memory = NonNullable<CgroupUsage['memory']>;

function ofMemory(read: (memory: Memory) => bigint): (measured: MeasuredContainer) => readonly MetricValue[] {
  return ({ cgroup }) => (cgroup.usage.memory === undefined ? [] : single(read(cgroup.usage.memory)));
}

export const MEMORY_METRICS: readonly MetricDefinition<MeasuredContainer>[] = [
  {
    name: 'container_memory_usage_bytes',
    help: 'Memory in use, with pages of files however long ago they were used, in bytes.',
    type: 'gauge',
    values: ofMemory(({ usage }) => usage),
  },
  {
    name: 'container_memory_working_set_bytes',
    help: 'Memory in use without pages of files that were not used of late, in bytes.',
    type: 'gauge',
    values: ofMemory(workingSetOf),
  },
  {
    name: 'container_memory_max_usage_bytes',
    help: 'The most memory that was ever in use, in bytes.',
    type: 'gauge',
    values: ({ cgroup }) => single(cgroup.memory?.peak),
  },
  {
    name: 'container_memory_rss',
    help: 'Anonymous memory, in bytes.',
    type: 'gauge',
    values: ofMemory(({ rss }) => rss),
  },
  {
    name: 'container_memory_cache',
    help: 'Pages of files in memory, in bytes.',
    type: 'gauge',
    values: ofMemory(({ cache }) => cache),
  },
  {
    name: 'container_memory_mapped_file',
    help: 'Pages of files that are mapped, in bytes.',
    type: 'gauge',
    values: ofMemory(({ mappedFile }) => mappedFile),
  },
  {
    name: 'container_memory_total_active_file_bytes',
    help: 'Pages of files that were used of late, in bytes.',
    type: 'gauge',
    values: ofMemory(({ activeFile }) => activeFile),
  },
  {
    name: 'container_memory_total_inactive_file_bytes',
    help: 'Pages of files that were not used of late, in bytes.',
    type: 'gauge',
    values: ofMemory(({ inactiveFile }) => inactiveFile),
  },
  {
    name: 'container_memory_kernel_usage',
    help: 'Memory that the kernel holds for the container, in bytes.',
    type: 'gauge',
    values: ({ cgroup }) => single(cgroup.memory?.kernel),
  },
  {
    name: 'container_memory_swap',
    help: 'Swap in use, in bytes.',
    type: 'gauge',
    values: ofMemory(({ swap }) => swap?.usage ?? 0n),
  },
  {
    name: 'container_memory_failcnt',
    help: 'How often the memory limit was met.',
    type: 'counter',
    values: ({ cgroup }) => single(cgroup.memory?.limitHits),
  },
  {
    name: 'container_memory_failures_total',
    help: 'Page faults (pgfault), and those that had to wait for a disk (pgmajfault).',
    type: 'counter',
    labelKeys: ['failure_type', 'scope'],
    values: pageFaults,
  },
  {
    name: 'container_oom_events_total',
    help: 'Processes that the kernel has killed for want of memory.',
    type: 'counter',
    values: ({ cgroup }) => single(cgroup.oomKills),
  },
];

function pageFaults({ cgroup: { usage, memory } }: MeasuredContainer): MetricValue[] {
  if (usage.memory === undefined || memory === undefined) return [];
  return [
    { value: memory.ownPageFaults, labels: ['pgfault', 'container'] },
    { value: memory.ownMajorPageFaults, labels: ['pgmajfault', 'container'] },
    { value: usage.memory.pageFaults, labels: ['pgfault', 'hierarchy'] },
    { value: usage.memory.majorPageFaults, labels: ['pgmajfault', 'hierarchy'] },
  ];
}

/** Seconds in which all (`stalled`) or some (`waiting`) tasks stood still. */
function pressureOf(
  resource: 'cpu' | 'memory' | 'io',
  word: 'stalled' | 'waiting',
  of: (usage: CgroupUsage) => Pressure | undefined,
): MetricDefinition<MeasuredContainer> {
  const who = word === 'stalled' ? 'all tasks at once' : 'at least one task';
  return {
    name: `container_pressure_${resource}_${word}_seconds_total`,
    help: `Time in which ${who} stood still for want of ${resource}, in seconds.`,
    type: 'counter',
    values: ({ cgroup }) => {
      const line = of(cgroup.usage)?.[word === 'stalled' ? 'full' : 'some'];
      return line === undefined ? [] : single(wholeSeconds(line.totalUs * NS_PER_US));
    },
  };
}

export const PRESSURE_METRICS: readonly MetricDefinition<MeasuredContainer>[] = (
  [
    ['cpu', ({ cpu }) => cpu.pressure],
    ['memory', ({ memory }) => memory?.pressure],
    ['io', ({ ioPressure }) => ioPressure],
  ] as const satisfies readonly (readonly [string, (usage: CgroupUsage) => Pressure | undefined])[]
).flatMap(([resource, of]) => [pressureOf(resource, 'stalled', of), pressureOf(resource, 'waiting', of)]);
