import type { CgroupDetail, CgroupLimits, CpuDetail, DeviceIo, HugepageUse, MemoryDetail } from './cgroup-detail.ts';
import { parseCount, parseFlatKeyed, parseLimit } from './cgroup-text.ts';
import { usageV2, V2_USAGE_FILES } from './cgroup-v2.ts';
import type { CgroupText, WantedFiles } from './wanted-files.ts';

const NS_PER_US = 1000n;

/** What {@link detailV2} reads. @param pageSizes of this host's huge pages, as in the names of the kernel's files */
export function v2DetailFiles(pageSizes: readonly string[]): WantedFiles {
  return {
    ...V2_USAGE_FILES,
    cpu: ['cpu.weight', 'cpu.max'],
    memory: [...(V2_USAGE_FILES['memory'] ?? []), 'memory.peak', 'memory.events', 'memory.min'],
    pids: ['pids.current', 'pids.max'],
    io: ['io.stat'],
    hugetlb: pageSizes.map((size) => `hugetlb.${size}.current`),
  };
}

/** From the files of cgroup v2. Undefined when the cgroup is not there. Pure. */
export function detailV2(
  text: CgroupText,
  takenAtWallMs: number,
  pageSizes: readonly string[],
): CgroupDetail | undefined {
  const usage = usageV2(text, takenAtWallMs);
  if (usage === undefined) return undefined;
  const tasks = parseCount(text('pids', 'pids.current'));
  const limit = parseCount(text('pids', 'pids.max'));
  return {
    usage,
    cpu: cpuV2(text),
    ...(usage.memory === undefined
      ? {}
      : { memory: memoryV2(text, usage.memory.pageFaults, usage.memory.majorPageFaults) }),
    limits: limitsV2(text),
    ...(tasks === undefined ? {} : { pids: { tasks, ...(limit === undefined ? {} : { limit }) } }),
    io: ioV2(text('io', 'io.stat')),
    hugepages: pageSizes.flatMap((pageSize): HugepageUse[] => {
      const bytes = parseCount(text('hugetlb', `hugetlb.${pageSize}.current`));
      return bytes === undefined ? [] : [{ pageSize, bytes }];
    }),
  };
}

function cpuV2(text: CgroupText): CpuDetail {
  const stat = parseFlatKeyed(text('', 'cpu.stat'));
  const us = (name: string): bigint => (stat.get(name) ?? 0n) * NS_PER_US;
  return {
    userNs: us('user_usec'),
    systemNs: us('system_usec'),
    periods: stat.get('nr_periods') ?? 0n,
    throttledPeriods: stat.get('nr_throttled') ?? 0n,
    throttledNs: us('throttled_usec'),
  };
}

/** v2 counts faults with all below only: both numbers are the same, as in the field. */
function memoryV2(text: CgroupText, ownPageFaults: bigint, ownMajorPageFaults: bigint): MemoryDetail {
  const kernel = parseFlatKeyed(text('memory', 'memory.stat')).get('kernel');
  const peak = parseCount(text('memory', 'memory.peak'));
  const limitHits = parseFlatKeyed(text('memory', 'memory.events')).get('max');
  return {
    ...(kernel === undefined ? {} : { kernel }),
    ...(peak === undefined ? {} : { peak }),
    ...(limitHits === undefined ? {} : { limitHits }),
    ownPageFaults,
    ownMajorPageFaults,
  };
}

function limitsV2(text: CgroupText): CgroupLimits {
  const weight = parseCount(text('cpu', 'cpu.weight'));
  const [quota, period] = (text('cpu', 'cpu.max') ?? '').trim().split(' ');
  const found = {
    cpuShares: weight === undefined ? undefined : weightToShares(weight),
    cpuPeriodUs: parseCount(period),
    cpuQuotaUs: parseCount(quota),
    memory: parseLimit(text('memory', 'memory.max')),
    memoryReservation: parseLimit(text('memory', 'memory.min')),
    memorySwap: parseLimit(text('memory', 'memory.swap.max')),
  };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
}

/** cpu.weight (1 … 10000) on the scale of cpu.shares (2 … 262144), linearly as the kernel documents it. */
function weightToShares(weight: bigint): bigint {
  return 2n + ((weight - 1n) * 262_142n) / 9_999n;
}

/** Lines `8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0`. */
function ioV2(text: string | undefined): DeviceIo[] {
  return (text ?? '').split('\n').flatMap((line) => {
    const [device = '', ...pairs] = line.split(' ');
    const [major, minor] = device.split(':').map(Number);
    if (major === undefined || minor === undefined || pairs.length === 0) return [];
    const values = new Map(pairs.map((pair) => [pair.split('=')[0] ?? '', parseCount(pair.split('=')[1])]));
    const of = (name: string): bigint => values.get(name) ?? 0n;
    return [{ major, minor, readBytes: of('rbytes'), writeBytes: of('wbytes'), reads: of('rios'), writes: of('wios') }];
  });
}
