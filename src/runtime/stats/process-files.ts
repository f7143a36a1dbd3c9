import { readdir, readFile, readlink } from 'node:fs/promises';
import { parseCount } from './cgroup-text.ts';

/** Open files of some processes. */
export interface OpenFiles {
  readonly all: bigint;
  readonly sockets: bigint;
}

/** So many links are read at a time: the pool of threads has other work. */
const AT_ONCE = 32;

/** What each has open, added up; one that ends meanwhile counts for what was seen of it. */
export async function countOpenFiles(pids: readonly number[]): Promise<OpenFiles> {
  let [all, sockets] = [0n, 0n];
  for (const pid of pids) {
    const directory = `/proc/${String(pid)}/fd`;
    const names = await readdir(directory).catch(() => []);
    all += BigInt(names.length);
    for (let from = 0; from < names.length; from += AT_ONCE) {
      const links = names.slice(from, from + AT_ONCE).map((name) => readlink(`${directory}/${name}`).catch(() => ''));
      sockets += BigInt((await Promise.all(links)).filter((target) => target.startsWith('socket:')).length);
    }
  }
  return { all, sockets };
}

/** How many files that process may have open (soft limit); undefined when it is gone, or may have any number. */
export async function openFilesLimit(pid: number): Promise<bigint | undefined> {
  const text = await readFile(`/proc/${String(pid)}/limits`, 'utf8').catch(() => '');
  return parseOpenFilesLimit(text);
}

/** The text of /proc/PID/limits. */
export function parseOpenFilesLimit(text: string): bigint | undefined {
  return parseCount(/^Max open files\s+(\S+)/m.exec(text)?.[1]);
}
