import { recordStep } from '../../journal/record-step.ts';
import { withDeadline, type Op } from '../../lib/abort.ts';
import { joinErrors } from '../../lib/errors.ts';
import { untilEnded } from '../../lib/single-flight.ts';
import type { RuntimeContext } from '../context.ts';
import { correctExit } from '../events/record-exit.ts';
import { containerOwner } from '../store/owners.ts';
import { combineExit, isKernelsWord } from '../task/exit-status.ts';
import { isExitUnknown } from './state.ts';
import { subjectOf } from './subject.ts';

/**
 * One budget for each step, so that a runtime that is slow to delete leaves the unmount its time (FAILURES.md row 4).
 * Order matters: the process first, then what it used.
 */
const STEPS = [
  // A monitor that alone knows the exit is given a minute of it.
  { what: 'task and monitor', kinds: ['task'], timeoutMs: 90_000 },
  { what: 'root file system', kinds: ['rootfs'], timeoutMs: 30_000 },
  { what: 'bundle', kinds: ['bundle'], timeoutMs: 30_000 },
] as const;

const WHOLE_TIMEOUT_MS = 150_000;

/** A disk takes milliseconds. One that takes nothing must keep nothing from ending. */
const NOTED_WAIT_MS = 5_000;

/**
 * Deletes the task of a container that has ended, its monitor, cgroup, mounts and bundle; the writable layer stays until the
 * container is removed. Its exit has been recorded before and waits for none of this (DESIGN.md, idea 2). Idempotent
 * and resumable; one at a time per container, later callers join. Throws while something is left.
 */
export function cleanUpContainer(rt: RuntimeContext, id: string): Promise<void> {
  return rt.cleanups.run(id, async (goesOn) => {
    const record = rt.containers.get(id);
    if (record === undefined || !hasLeftovers(rt, id)) return;
    const words = { what: 'container.cleanup', message: 'task deleted, mounts and bundle released', step: 'cleanup' };
    const run = untilEnded(goesOn, (op) =>
      recordStep(rt, subjectOf(rt, record.meta), words, async () => {
        await releaseAfterExit(op, rt, id);
        await hearLastWord(rt, id);
      }),
    );
    await waitUntilNoted(rt, id);
    await rt.faults.reach('exit/cleanup-begun');
    await rt.lanes.enqueue(id, { name: 'clean up after the exit', timeoutMs: WHOLE_TIMEOUT_MS, run });
    await rt.faults.reach('exit/cleaned-up');
  });
}

/** What only the kernel said of an exit goes with task and cgroup: on disk first, or a daemon that is killed now has lost it. */
async function waitUntilNoted({ containers, clock, log }: RuntimeContext, id: string): Promise<void> {
  const state = containers.get(id)?.status.state;
  if (state?.kind !== 'exited' || state.cause.kind !== 'ended' || !isKernelsWord(state.cause.exit)) return;
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const timer = clock.after(NOTED_WAIT_MS, () => resolve(false));
  containers.whenPersisted(id, () => resolve(true));
  const noted = await promise;
  timer.cancel();
  if (!noted) log.warn({ containerId: id }, 'cleaned up after an exit that is not on disk yet');
}

/**
 * The monitor has gone with the task: whether there is an exit file is certain now. Where a restart came between, no exit monitor of
 * ours looks for it any more.
 */
async function hearLastWord(rt: RuntimeContext, id: string): Promise<void> {
  if (!isExitUnknown(rt.containers.get(id)?.status)) return;
  if (rt.exits.isArmed(id)) {
    rt.exits.look();
    return;
  }
  const record = await rt.tasks.readExit(id);
  if (record !== undefined) correctExit(rt, id, combineExit(record, undefined));
}

export function hasLeftovers(rt: Pick<RuntimeContext, 'ledger'>, id: string): boolean {
  const kinds: readonly string[] = STEPS.flatMap((step) => [...step.kinds]);
  return rt.ledger.entriesOf(containerOwner(id)).some((entry) => kinds.includes(entry.kind));
}

/** The steps themselves, for those who are in the container's lane already. */
export async function releaseAfterExit(op: Op, rt: RuntimeContext, id: string): Promise<void> {
  for (const { what, kinds, timeoutMs } of STEPS) {
    await withDeadline(op, rt.clock, timeoutMs, `releasing the ${what} of container ${id}`, async (stepOp) => {
      const failures = await rt.ledger.release(stepOp, containerOwner(id), rt.releasers, kinds);
      if (failures.length > 0) throw joinErrors(failures.map((failure) => failure.error));
    });
  }
}
