import { withDeadline, type Op } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import { messageOf } from '../lib/errors.ts';
import type { Cgroups } from '../linux/cgroups.ts';
import { processIdentity } from '../linux/procfs.ts';

export interface Stray {
  readonly comm: string;
  /** In ticks of 1/100 s since the machine's start. */
  readonly startTimeTicks: number;
}

export interface StraysDeps {
  readonly clock: Clock;
  readonly cgroups: Pick<Cgroups, 'procs' | 'killAll'>;
  /** Of a process that has ended: undefined. */
  readonly look?: (pid: number) => Promise<Stray | undefined>;
}

/** A network plug-in or an OCI runtime's start takes some 100 ms; cut off, host-local would leave an address that is nobody's. */
const END_BY_THEMSELVES_MS = 5_000;
/** What has taken so long already hangs: nothing that a daemon has at work there does, not on a slow machine either. */
const HANGS_AFTER_MS = 60_000;
const TICK_MS = 10;
/** One in state D must not keep the daemon from serving. */
const KILL_WAIT_MS = 5_000;
const FIRST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 100;
/**
 * Works inside a container's processes, and leaves its own code in them when it is killed (docs/decisions/0027). It writes their memory at the disk's
 * pace; what takes longer than any caller waits for a checkpoint hangs.
 */
const CHECKPOINTER = 'criu';
const CHECKPOINTER_HANGS_AFTER_MS = 600_000;
/** Ends with what it watches, be that days; what it has at work meanwhile, an OCI runtime, is seen beside it. */
const MONITOR = 'conmon';

/**
 * Waits for what a daemon that was killed had at work in its cgroup `path` (plug-ins, helpers, commands of the OCI runtime), and kills
 * what does not end by itself: it would go on making what recovery takes away. CRIU is waited for as long as it works. Only while the daemon's lock is held and before
 * anything of our own is in that cgroup. Never throws: returns how many there were.
 */
export async function endStrays(op: Op, deps: StraysDeps, path: string): Promise<number> {
  const { cgroups, clock, look = processIdentity } = deps;
  const isYounger = ({ startTimeTicks }: Stray, ms: number): boolean =>
    clock.boottimeMs() - startTimeTicks * TICK_MS < ms;
  const isAtWork = (stray: Stray): boolean => stray.comm !== MONITOR && isYounger(stray, HANGS_AFTER_MS);
  const isCheckpointing = (stray: Stray): boolean =>
    stray.comm === CHECKPOINTER && isYounger(stray, CHECKPOINTER_HANGS_AFTER_MS);
  const seen = new Set<number>();
  let told = false;
  const endMs = clock.monotonicMs() + END_BY_THEMSELVES_MS;
  try {
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
      const pids = await cgroups.procs(path, true);
      for (const pid of pids) seen.add(pid);
      const strays = (await Promise.all(pids.map(look))).filter((stray) => stray !== undefined);
      const mayWait = strays.some(isCheckpointing) || (strays.some(isAtWork) && clock.monotonicMs() < endMs);
      if (!mayWait) break;
      if (!told && strays.some(isCheckpointing)) {
        op.log.info({ cgroup: path }, 'waits for CRIU, which is at work on a checkpoint and must not be broken off');
        told = true;
      }
      await clock.sleep(pauseMs, op.signal);
    }
    await withDeadline(op, clock, KILL_WAIT_MS, `ending what is left in ${path}`, (killOp) =>
      cgroups.killAll(killOp, path),
    );
  } catch (error) {
    op.log.warn({ cgroup: path, error: messageOf(error) }, 'what an earlier daemon had at work has not ended');
  }
  return seen.size;
}
