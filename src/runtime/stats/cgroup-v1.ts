import { parseCount, parseFlatKeyed, parseLimit } from './cgroup-text.ts';
import type { CgroupUsage, MemoryUsage } from './cgroup-usage.ts';
import type { CgroupText, WantedFiles } from './wanted-files.ts';

/** What {@link usageV1} reads. */
export const V1_USAGE_FILES: WantedFiles = {
  cpuacct: ['cpuacct.usage'],
  memory: ['memory.usage_in_bytes', 'memory.limit_in_bytes', 'memory.memsw.limit_in_bytes', 'memory.stat'],
};

/** From the files of cgroup v1. Undefined when the cgroup is not there. Pure. */
export function usageV1(text: CgroupText, takenAtWallMs: number): CgroupUsage | undefined {
  const totalNs = parseCount(text('cpuacct', 'cpuacct.usage'));
  if (totalNs === undefined) return undefined;
  const memory = memoryV1(text);
  return { takenAtWallMs, cpu: { totalNs }, ...(memory === undefined ? {} : { memory }) };
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
