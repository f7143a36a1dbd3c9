import { parseCount, parseFlatKeyed, parseLimit, parsePressure } from './cgroup-text.ts';
import type { CgroupUsage, MemoryUsage, Pressure } from './cgroup-usage.ts';
import type { CgroupText, WantedFiles } from './wanted-files.ts';

/** What {@link cpuTotalNsV1} reads. */
export const V1_CPU_FILES: WantedFiles = { cpuacct: ['cpuacct.usage'] };

/** What {@link usageV1} reads. On a hybrid layout the v2 tree tells pressure, if the OCI runtime has put the container there, too. */
export const V1_USAGE_FILES: WantedFiles = {
  ...V1_CPU_FILES,
  memory: ['memory.usage_in_bytes', 'memory.limit_in_bytes', 'memory.memsw.limit_in_bytes', 'memory.stat'],
  '': ['cgroup.events', 'cpu.pressure', 'memory.pressure', 'io.pressure'],
};

export function cpuTotalNsV1(text: CgroupText): bigint | undefined {
  return parseCount(text('cpuacct', 'cpuacct.usage'));
}

/** From the files of cgroup v1. Undefined when the cgroup is not there. Pure. */
export function usageV1(text: CgroupText, takenAtWallMs: number): CgroupUsage | undefined {
  const totalNs = cpuTotalNsV1(text);
  if (totalNs === undefined) return undefined;
  const memory = memoryV1(text);
  const isInV2Tree = parseFlatKeyed(text('', 'cgroup.events')).get('populated') === 1n;
  const pressure = (file: string): Pressure | undefined => (isInV2Tree ? parsePressure(text('', file)) : undefined);
  const [cpu, ofMemory, io] = [pressure('cpu.pressure'), pressure('memory.pressure'), pressure('io.pressure')];
  return {
    takenAtWallMs,
    cpu: { totalNs, ...(cpu === undefined ? {} : { pressure: cpu }) },
    ...(memory === undefined
      ? {}
      : { memory: { ...memory, ...(ofMemory === undefined ? {} : { pressure: ofMemory }) } }),
    ...(io === undefined ? {} : { ioPressure: io }),
  };
}

function memoryV1(text: CgroupText): MemoryUsage | undefined {
  const usage = parseCount(text('memory', 'memory.usage_in_bytes'));
  if (usage === undefined) return undefined;
  const stat = parseFlatKeyed(text('memory', 'memory.stat'));
  // `total_`: with what is below it, as on v2.
  const of = (name: string): bigint => stat.get(`total_${name}`) ?? stat.get(name) ?? 0n;
  const limit = parseLimit(text('memory', 'memory.limit_in_bytes'));
  const swap = swapV1(text, stat, limit);
  return {
    usage,
    ...(limit === undefined ? {} : { limit }),
    inactiveFile: of('inactive_file'),
    activeFile: of('active_file'),
    rss: of('rss'),
    cache: of('cache'),
    mappedFile: of('mapped_file'),
    pageFaults: of('pgfault'),
    majorPageFaults: of('pgmajfault'),
    ...(swap === undefined ? {} : { swap }),
  };
}

/** v1 limits memory and swap together. Without swap accounting memory.stat has no such line. */
function swapV1(
  text: CgroupText,
  stat: ReadonlyMap<string, bigint>,
  memoryLimit: bigint | undefined,
): MemoryUsage['swap'] {
  const usage = stat.get('total_swap') ?? stat.get('swap');
  if (usage === undefined) return undefined;
  const both = parseLimit(text('memory', 'memory.memsw.limit_in_bytes'));
  if (both === undefined || memoryLimit === undefined) return { usage };
  return { usage, limit: both > memoryLimit ? both - memoryLimit : 0n };
}
