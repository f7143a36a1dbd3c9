import type { CgroupDetail, CgroupLimits, CpuDetail, DeviceIo, HugepageUse, MemoryDetail } from './cgroup-detail.ts';
import { parseCount, parseFlatKeyed, parseLimit } from './cgroup-text.ts';
import { usageV1, V1_USAGE_FILES } from './cgroup-v1.ts';
import type { CgroupText, WantedFiles } from './wanted-files.ts';

/** The kernel counts in hundredths of a second wherever it counts for people. */
const NS_PER_TICK = 10_000_000n;
const IO_BYTES = 'blkio.throttle.io_service_bytes_recursive';
const IO_COUNT = 'blkio.throttle.io_serviced_recursive';

/** What {@link detailV1} reads. @param pageSizes of this host's huge pages, as in the names of the kernel's files */
export function v1DetailFiles(pageSizes: readonly string[]): WantedFiles {
  return {
    '': V1_USAGE_FILES[''] ?? [],
    cpuacct: [...(V1_USAGE_FILES['cpuacct'] ?? []), 'cpuacct.usage_user', 'cpuacct.usage_sys', 'cpuacct.stat'],
    cpu: ['cpu.stat', 'cpu.shares', 'cpu.cfs_period_us', 'cpu.cfs_quota_us'],
    memory: [
      ...(V1_USAGE_FILES['memory'] ?? []),
      'memory.kmem.usage_in_bytes',
      'memory.max_usage_in_bytes',
      'memory.failcnt',
      'memory.soft_limit_in_bytes',
    ],
    pids: ['pids.current', 'pids.max'],
    blkio: [IO_BYTES, IO_COUNT],
    hugetlb: pageSizes.flatMap((size) => [`hugetlb.${size}.usage_in_bytes`, `hugetlb.${size}.max_usage_in_bytes`]),
  };
}

/** From the files of cgroup v1. Undefined when the cgroup is not there. Pure. */
export function detailV1(
  text: CgroupText,
  takenAtWallMs: number,
  pageSizes: readonly string[],
): CgroupDetail | undefined {
  const usage = usageV1(text, takenAtWallMs);
  if (usage === undefined) return undefined;
  const tasks = parseCount(text('pids', 'pids.current'));
  const limit = parseCount(text('pids', 'pids.max'));
  return {
    usage,
    cpu: cpuV1(text),
    ...(usage.memory === undefined ? {} : { memory: memoryV1(text) }),
    limits: limitsV1(text),
    ...(tasks === undefined ? {} : { pids: { tasks, ...(limit === undefined ? {} : { limit }) } }),
    io: ioV1(text),
    hugepages: hugepagesV1(text, pageSizes),
  };
}

function cpuV1(text: CgroupText): CpuDetail {
  const ticks = parseFlatKeyed(text('cpuacct', 'cpuacct.stat'));
  const stat = parseFlatKeyed(text('cpu', 'cpu.stat'));
  return {
    userNs: parseCount(text('cpuacct', 'cpuacct.usage_user')) ?? (ticks.get('user') ?? 0n) * NS_PER_TICK,
    systemNs: parseCount(text('cpuacct', 'cpuacct.usage_sys')) ?? (ticks.get('system') ?? 0n) * NS_PER_TICK,
    periods: stat.get('nr_periods') ?? 0n,
    throttledPeriods: stat.get('nr_throttled') ?? 0n,
    throttledNs: stat.get('throttled_time') ?? 0n,
  };
}

function memoryV1(text: CgroupText): MemoryDetail {
  const stat = parseFlatKeyed(text('memory', 'memory.stat'));
  const kernel = parseCount(text('memory', 'memory.kmem.usage_in_bytes'));
  const peak = parseCount(text('memory', 'memory.max_usage_in_bytes'));
  const limitHits = parseCount(text('memory', 'memory.failcnt'));
  return {
    ...(kernel === undefined ? {} : { kernel }),
    ...(peak === undefined ? {} : { peak }),
    ...(limitHits === undefined ? {} : { limitHits }),
    ownPageFaults: stat.get('pgfault') ?? 0n,
    ownMajorPageFaults: stat.get('pgmajfault') ?? 0n,
  };
}

function limitsV1(text: CgroupText): CgroupLimits {
  const found = {
    cpuShares: parseCount(text('cpu', 'cpu.shares')),
    cpuPeriodUs: parseCount(text('cpu', 'cpu.cfs_period_us')),
    // -1: none.
    cpuQuotaUs: parseCount(text('cpu', 'cpu.cfs_quota_us')),
    memory: parseLimit(text('memory', 'memory.limit_in_bytes')),
    memoryReservation: parseLimit(text('memory', 'memory.soft_limit_in_bytes')),
    memorySwap: parseLimit(text('memory', 'memory.memsw.limit_in_bytes')),
  };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
}

/** Lines `8:0 Read 4096`, and a sum at the end. */
function ioV1(text: CgroupText): DeviceIo[] {
  const bytes = byDevice(text('blkio', IO_BYTES));
  const counts = byDevice(text('blkio', IO_COUNT));
  return [...new Set([...bytes.keys(), ...counts.keys()])].map((device) => {
    const [major = 0, minor = 0] = device.split(':').map(Number);
    const of = (from: typeof bytes, what: string): bigint => from.get(device)?.get(what) ?? 0n;
    return {
      major,
      minor,
      readBytes: of(bytes, 'Read'),
      writeBytes: of(bytes, 'Write'),
      reads: of(counts, 'Read'),
      writes: of(counts, 'Write'),
    };
  });
}

function byDevice(text: string | undefined): Map<string, Map<string, bigint>> {
  const devices = new Map<string, Map<string, bigint>>();
  for (const line of (text ?? '').split('\n')) {
    const [device, what, digits] = line.split(' ');
    const value = parseCount(digits);
    if (device === undefined || what === undefined || value === undefined || !device.includes(':')) continue;
    const operations = devices.get(device) ?? new Map<string, bigint>();
    devices.set(device, operations.set(what, value));
  }
  return devices;
}

function hugepagesV1(text: CgroupText, pageSizes: readonly string[]): HugepageUse[] {
  return pageSizes.flatMap((pageSize) => {
    const bytes = parseCount(text('hugetlb', `hugetlb.${pageSize}.usage_in_bytes`));
    const peakBytes = parseCount(text('hugetlb', `hugetlb.${pageSize}.max_usage_in_bytes`));
    if (bytes === undefined) return [];
    return [{ pageSize, bytes, ...(peakBytes === undefined ? {} : { peakBytes }) }];
  });
}
