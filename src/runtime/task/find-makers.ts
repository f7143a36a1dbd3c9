import type { ProcessKey } from '../../linux/procfs.ts';
import { listPids, readCmdline } from '../../linux/procfs.ts';
import type { ProcessTable, ProcessView } from './process-table.ts';
import type { Task } from './task.ts';

/**
 * The processes that make a task whose create was cut off before their pids were known: its monitor, an OCI runtime
 * that still creates (both name the bundle folder and the id on their command lines), and what these have started: hooks, the
 * container's first process. Reads the whole of /proc.
 */
export async function findMakers(
  processes: ProcessTable,
  task: Pick<Task, 'id' | 'bundleDir'>,
): Promise<readonly ProcessKey[]> {
  const makers = new Set<number>();
  const views: ProcessView[] = [];
  for (const pid of await listPids()) {
    // Looked at before and after: between two reads the pid may have changed hands.
    const before = await processes.view(pid);
    const isMaker = isMakerOf((await readCmdline(pid)) ?? [], task);
    const after = await processes.view(pid);
    if (after === undefined || before?.startTimeTicks !== after.startTimeTicks) continue;
    views.push(after);
    if (isMaker) makers.add(pid);
  }
  return withDescendants(views, makers);
}

const SIGSTOP = 19;

/**
 * Finds the makers and stops them (SIGSTOP), again and again until a look finds no new one: a process that forks between
 * the look and its end would leave a child that nothing ties to the task any more. To be killed next.
 */
export async function haltMakers(
  processes: ProcessTable,
  task: Pick<Task, 'id' | 'bundleDir'>,
): Promise<readonly ProcessKey[]> {
  const halted = new Map<number, ProcessKey>();
  for (;;) {
    const fresh = (await findMakers(processes, task)).filter(({ pid }) => !halted.has(pid));
    if (fresh.length === 0) return [...halted.values()];
    for (const maker of fresh) {
      await processes.signal(maker, SIGSTOP);
      halted.set(maker.pid, maker);
    }
  }
}

export function isMakerOf(argv: readonly string[], task: Pick<Task, 'id' | 'bundleDir'>): boolean {
  const bundle = argv.indexOf('--bundle');
  return bundle >= 0 && argv[bundle + 1] === task.bundleDir && argv.includes(task.id);
}

/** Parents before their children, so that who is killed first cannot start anew what is killed next. */
export function withDescendants<T extends Pick<ProcessView, 'pid' | 'ppid'>>(
  views: readonly T[],
  roots: ReadonlySet<number>,
): readonly T[] {
  const found = views.filter((view) => roots.has(view.pid));
  const taken = new Set(roots);
  // The list grows while it is walked.
  for (const parent of found) {
    for (const view of views) {
      if (view.ppid !== parent.pid || taken.has(view.pid)) continue;
      taken.add(view.pid);
      found.push(view);
    }
  }
  return found;
}
