import { readdir, readFile } from 'node:fs/promises';
import type { ProcessKey } from '../../linux/procfs.ts';
import type { ProcessTable } from './process-table.ts';
import type { Task } from './task.ts';

/**
 * The processes that make a task whose create was cut off before their pids were known: its monitor, and an OCI runtime
 * that still creates. Both name the bundle folder and the id on their command lines. Reads the whole of /proc.
 */
export async function findMakers(processes: ProcessTable, task: Pick<Task, 'id' | 'bundleDir'>): Promise<ProcessKey[]> {
  const found: ProcessKey[] = [];
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name) || !isMakerOf(await commandLine(name), task)) continue;
    const view = await processes.view(Number(name));
    // Looked at again: between the two reads the pid may have changed hands.
    if (view !== undefined && isMakerOf(await commandLine(name), task)) found.push(view);
  }
  return found;
}

export function isMakerOf(argv: readonly string[], task: Pick<Task, 'id' | 'bundleDir'>): boolean {
  const bundle = argv.indexOf('--bundle');
  return bundle >= 0 && argv[bundle + 1] === task.bundleDir && argv.includes(task.id);
}

async function commandLine(pid: string): Promise<string[]> {
  try {
    return (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0');
  } catch {
    return [];
  }
}
