import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Op } from '../../lib/abort.ts';
import { namesIn } from '../../lib/may-be-gone.ts';
import { SIGKILL } from '../../linux/signals.ts';
import { EXEC_PREFIX, removeExecDir } from './exec-place.ts';
import { haltMakers } from './find-makers.ts';
import type { TaskContext } from './task-context.ts';

/**
 * Ends what an earlier process of this Gantry was executing when it was killed: nobody waits for it any more, and the next
 * probe or hook would find it still there (FAILURES.md row 28). Only at start, before the first exec. Says how many there were.
 */
export async function sweepExecs(op: Op, context: TaskContext): Promise<number> {
  const names = await namesIn(context.execDir);
  for (const name of names) {
    const dir = join(context.execDir, name);
    const cgroup = await cgroupOf(join(dir, 'pid'), name);
    // The command itself is the monitor's child.
    for (const maker of await haltMakers(op, context, { id: name, bundleDir: dir })) {
      await context.processes.signal(maker, SIGKILL);
    }
    if (cgroup !== undefined) {
      await context.cgroups.killAll(op, cgroup);
      await context.cgroups.removeSubgroup(op, cgroup, EXEC_PREFIX);
    }
    await removeExecDir(op, context, dir);
  }
  return names.length;
}

/** Only the cgroup that carries the exec's own random name: the pid may be a stranger's by now. */
async function cgroupOf(pidFile: string, name: string): Promise<string | undefined> {
  const pid = Number((await readFile(pidFile, 'utf8').catch(() => '')).trim());
  if (!Number.isSafeInteger(pid) || pid <= 0) return undefined;
  const lines = (await readFile(`/proc/${pid}/cgroup`, 'utf8').catch(() => '')).split('\n');
  // `4:memory:/path`; the path itself may hold colons.
  const paths = lines.map((line) => line.split(':').slice(2).join(':'));
  return paths.find((path) => path.endsWith(`/${name}`));
}
