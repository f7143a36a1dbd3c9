import { basename } from 'node:path';
import { raceSignal, type Op } from '../../lib/abort.ts';
import type { ProcessKey } from '../../linux/procfs.ts';
import { listPids, readCmdline } from '../../linux/procfs.ts';
import type { ProcessTable, ProcessView } from './process-table.ts';
import type { TaskCgroups } from './task-cgroups.ts';
import type { Task } from './task.ts';

/** Where makers are looked for. */
export interface MakersAt {
  readonly processes: Pick<ProcessTable, 'view' | 'signal'>;
  readonly cgroups: Pick<TaskCgroups, 'procs'>;
  /** Path of conmon. */
  readonly conmon: string;
  readonly monitorCgroup?: string;
  readonly pids?: () => Promise<readonly number[]>;
  readonly argvOf?: (pid: number) => Promise<readonly string[] | undefined>;
}

/** `runtime` absent: what it starts is not told by its own command line. */
export type SoughtTask = Pick<Task, 'id' | 'bundleDir'> & Partial<Pick<Task, 'runtime'>>;

/** What the kernel keeps of a program's name. */
const COMM_LENGTH = 15;

/**
 * The processes that make a task whose create was cut off before their pids were known: its monitor, an OCI runtime
 * that still creates (both name the bundle folder and the id on their command lines), and what these have started: hooks, the
 * container's first process.
 *
 * The kernel reads a command line out of the process itself, and that may hang with it. So only the monitors' cgroup is read, and whatever
 * is called as conmon or the OCI runtime is: an OCI runtime is where the daemon was, and so is a monitor that was not yet moved.
 */
export async function findMakers(
  op: Op,
  { processes, cgroups, conmon, monitorCgroup, pids = listPids, argvOf = readCmdline }: MakersAt,
  task: SoughtTask,
): Promise<readonly ProcessKey[]> {
  const monitors = new Set(monitorCgroup === undefined ? [] : await cgroups.procs(monitorCgroup, false));
  const programs = [conmon, ...(task.runtime === undefined ? [] : [task.runtime.path])];
  const names = programs.map((path) => basename(path).slice(0, COMM_LENGTH));
  const makers = new Set<number>();
  const views: ProcessView[] = [];
  for (const pid of await pids()) {
    // Looked at before and after: between two reads the pid may have changed hands.
    const before = await processes.view(pid);
    if (before === undefined) continue;
    if (!monitors.has(pid) && !names.includes(before.comm ?? '')) {
      views.push(before);
      continue;
    }
    const isMaker = isMakerOf((await raceSignal(argvOf(pid), op.signal)) ?? [], task);
    const after = await processes.view(pid);
    if (before.startTimeTicks !== after?.startTimeTicks) continue;
    views.push(after);
    if (isMaker) makers.add(pid);
  }
  return withDescendants(views, makers);
}

const SIGSTOP = 19;
/** What still forks after so many is no maker but what they have made; its cgroup is ended next, and that does not depend on a list. */
const MOST_ROUNDS = 50;

/**
 * Finds the makers and stops them (SIGSTOP), again and again until a look finds no new one: a process that forks between
 * the look and its end would leave a child that nothing ties to the task any more. To be killed next.
 */
export async function haltMakers(op: Op, at: MakersAt, task: SoughtTask): Promise<readonly ProcessKey[]> {
  const halted = new Map<number, ProcessKey>();
  for (let round = 0; round < MOST_ROUNDS; round++) {
    op.signal.throwIfAborted();
    const fresh = (await findMakers(op, at, task)).filter(({ pid }) => !halted.has(pid));
    if (fresh.length === 0) break;
    for (const maker of fresh) {
      await at.processes.signal(maker, SIGSTOP);
      halted.set(maker.pid, maker);
    }
  }
  return [...halted.values()];
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
