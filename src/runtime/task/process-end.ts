import type { Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import type { ProcessKey } from '../../linux/procfs.ts';
import type { ProcessTable } from './process-table.ts';

const FIRST_LOOK_MS = 2;
const LONGEST_LOOK_MS = 100;

/** Alive as far as anybody can still do something with it: a zombie only waits for its parent. */
export async function isAlive(processes: ProcessTable, identity: ProcessKey): Promise<boolean> {
  const view = await processes.view(identity.pid);
  return (
    view !== undefined &&
    view.startTimeTicks === identity.startTimeTicks &&
    view.state !== 'Z' &&
    view.state !== 'X' &&
    view.state !== 'x'
  );
}

/** Waits until the process is gone, at most `timeoutMs`. False: it is still there. */
export async function waitGone(
  op: Op,
  clock: Clock,
  processes: ProcessTable,
  identity: ProcessKey,
  timeoutMs: number,
): Promise<boolean> {
  const endMs = clock.monotonicMs() + timeoutMs;
  for (let pauseMs = FIRST_LOOK_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_LOOK_MS)) {
    if (!(await isAlive(processes, identity))) return true;
    const restMs = endMs - clock.monotonicMs();
    if (restMs <= 0) return false;
    await clock.sleep(Math.min(pauseMs, restMs), op.signal);
  }
}
