import { parseCount, parseFlatKeyed, parseLimit, parsePressure } from './cgroup-text.ts';
import type { CgroupUsage, MemoryUsage } from './cgroup-usage.ts';
import type { CgroupText, WantedFiles } from './wanted-files.ts';

const NS_PER_US = 1000n;

/** What {@link cpuTotalNsV2} reads. */
export const V2_CPU_FILES: WantedFiles = { '': ['cpu.stat'] };

/** What {@link usageV2} reads. Files of no controller are in every cgroup. */
export const V2_USAGE_FILES: WantedFiles = {
  '': ['cpu.stat', 'cpu.pressure', 'memory.pressure', 'io.pressure'],
  memory: ['memory.current', 'memory.max', 'memory.stat', 'memory.swap.current', 'memory.swap.max'],
};

export function cpuTotalNsV2(text: CgroupText): bigint | undefined {
  const usageUs = parseFlatKeyed(text('', 'cpu.stat')).get('usage_usec');
  return usageUs === undefined ? undefined : usageUs * NS_PER_US;
}

/** From the files of cgroup v2. Undefined when the cgroup is not there. Pure. */
export function usageV2(text: CgroupText, takenAtWallMs: number): CgroupUsage | undefined {
  const totalNs = cpuTotalNsV2(text);
  if (totalNs === undefined) return undefined;
  const pressure = parsePressure(text('', 'cpu.pressure'));
  const ioPressure = parsePressure(text('', 'io.pressure'));
  const memory = memoryV2(text);
  return {
    takenAtWallMs,
    cpu: { totalNs, ...(pressure === undefined ? {} : { pressure }) },
    ...(memory === undefined ? {} : { memory }),
    ...(ioPressure === undefined ? {} : { ioPressure }),
  };
}

function memoryV2(text: CgroupText): MemoryUsage | undefined {
  const usage = parseCount(text('memory', 'memory.current'));
  if (usage === undefined) return undefined;
  const stat = parseFlatKeyed(text('memory', 'memory.stat'));
  const of = (name: string): bigint => stat.get(name) ?? 0n;
  const limit = parseLimit(text('memory', 'memory.max'));
  const swapUsage = parseCount(text('memory', 'memory.swap.current'));
  const swapLimit = parseLimit(text('memory', 'memory.swap.max'));
  const pressure = parsePressure(text('', 'memory.pressure'));
  return {
    usage,
    ...(limit === undefined ? {} : { limit }),
    inactiveFile: of('inactive_file'),
    activeFile: of('active_file'),
    rss: of('anon'),
    cache: of('file'),
    mappedFile: of('file_mapped'),
    pageFaults: of('pgfault'),
    majorPageFaults: of('pgmajfault'),
    ...(swapUsage === undefined
      ? {}
      : { swap: { usage: swapUsage, ...(swapLimit === undefined ? {} : { limit: swapLimit }) } }),
    ...(pressure === undefined ? {} : { pressure }),
  };
}
