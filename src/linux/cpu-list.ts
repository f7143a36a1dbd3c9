import { readFile } from 'node:fs/promises';
import { fromNodeError } from './errno.ts';

/** Numbers of CPUs and of memory nodes that the host has, in the kernel's list format: `0-3,5`. */
export interface HostSets {
  readonly cpus: string;
  readonly mems: string;
}

const LIST = /^\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*$/;

/** As they are now: a machine may be given more of them. Switched off ones count. */
export async function hostSets(): Promise<HostSets> {
  const [cpus, mems] = await Promise.all([
    readList('/sys/devices/system/cpu/present'),
    // A kernel without NUMA has one node, and says nothing about it.
    readList('/sys/devices/system/node/possible', '0'),
  ]);
  return { cpus, mems };
}

/** Whether it is in the kernel's list format, and not empty. */
export function isCpuList(text: string): boolean {
  return LIST.test(text) && ranges(text).every(([from, to]) => from <= to);
}

/** What of a list is not in another one, range by range; empty when all of it is. */
export function notIn(list: string, there: string): string {
  const present = members(there);
  const highest = Math.max(...present);
  return ranges(list)
    .flatMap(([from, to]) => {
      const inside = members(`${String(from)}-${String(Math.min(to, highest))}`);
      const missing = inside.filter((member) => !present.includes(member)).map(String);
      const beyond = Math.max(from, highest + 1);
      if (to < beyond) return missing;
      return [...missing, to === beyond ? String(to) : `${String(beyond)}-${String(to)}`];
    })
    .join(',');
}

/** `0-2,5` as its numbers. */
export function members(list: string): number[] {
  return ranges(list).flatMap(([from, to]) => Array.from({ length: Math.max(0, to - from + 1) }, (_, i) => from + i));
}

function ranges(list: string): [number, number][] {
  return list
    .split(',')
    .filter((part) => part !== '')
    .map((part) => {
      const [from = 0, to = from] = part.split('-').map(Number);
      return [from, to];
    });
}

async function readList(path: string, otherwise?: string): Promise<string> {
  try {
    return (await readFile(path, 'utf8')).trim();
  } catch (error) {
    if (otherwise !== undefined) return otherwise;
    throw fromNodeError(error, `read ${path}`);
  }
}
