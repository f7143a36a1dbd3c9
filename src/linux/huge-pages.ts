import { namesIn } from '../lib/may-be-gone.ts';

/** The sizes of this kernel's huge pages, as its cgroup files have them: `2MB`. */
export async function hugePageSizes(): Promise<string[]> {
  return (await namesIn('/sys/kernel/mm/hugepages')).flatMap((name) => pageSizeName(name) ?? []);
}

/** The kernel's name for a size of huge pages in cgroup files (`2MB`), by that of its folder (`hugepages-2048kB`). */
export function pageSizeName(folder: string): string | undefined {
  const kib = Number(/^hugepages-(\d+)kB$/.exec(folder)?.[1]);
  if (!Number.isFinite(kib)) return undefined;
  if (kib >= 1 << 20) return `${String(kib >> 20)}GB`;
  return kib >= 1 << 10 ? `${String(kib >> 10)}MB` : `${String(kib)}KB`;
}
