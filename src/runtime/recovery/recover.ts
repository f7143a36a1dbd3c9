import { messageOf } from '../../lib/errors.ts';
import type { Op } from '../../lib/abort.ts';
import type { RuntimeContext } from '../context.ts';
import type { Orphan } from './orphan.ts';
import { findOrphanCgroups, releaseOrphans } from './orphans.ts';
import { recoverContainer, resumeContainer } from './recover-container.ts';
import { recoverSandbox, resumeSandbox } from './recover-sandbox.ts';

/** Budget of one object (BEHAVIOUR.md C2). A slow one is tried again; nothing is killed because it is slow. */
const OBJECT_TIMEOUT_MS = 10_000;
/** A look takes about as long of the processor. */
const BETWEEN_LOOKS_MS = 1;
/** However many there are: it is a part of an object's budget. */
const LONGEST_DELAY_MS = 1_000;

/**
 * Assumes only what cannot be otherwise while no gantryd runs: our own files were left alone, nothing of ours was added;
 * processes may have ended, mounts may be gone, the machine may have been restarted.
 *
 * Objects are recovered side by side, each in its lane: what is asked of one meanwhile waits for it there, while lists show
 * the last known state. When all have been looked at, what was on its way goes on.
 *
 * @param serving every look waits for it, and they begin one after the other: together they are thousands of small reads, which nobody
 * who only wants a list is to wait for
 */
export async function recover(
  rt: RuntimeContext,
  orphans: readonly Orphan[],
  serving: Promise<void> = Promise.resolve(),
): Promise<void> {
  const sandboxIds = rt.sandboxes.list().map(({ meta }) => meta.id);
  const containerIds = rt.containers.list().map(({ meta }) => meta.id);
  let begun = 0;
  const turn = (): Promise<void> => {
    const delayMs = Math.min(begun++ * BETWEEN_LOOKS_MS, LONGEST_DELAY_MS);
    return delayMs === 0 ? serving : serving.then(() => rt.clock.sleep(delayMs));
  };
  await Promise.all([
    ...containerIds.map((id) => inLane(rt, id, 'container', turn(), recoverContainer)),
    ...sandboxIds.map((id) => inLane(rt, id, 'sandbox', turn(), recoverSandbox)),
  ]);
  await rt.faults.reach('recovery/objects-done');
  // Armed only now that the store has every object: so nothing can be told and not be found (BEHAVIOUR.md T3).
  rt.exits.look();
  for (const id of containerIds) resumeContainer(rt, id);
  for (const id of sandboxIds) resumeSandbox(rt, id);
  await rt.faults.reach('recovery/resumed');
  await releaseOrphans(rt, [...orphans, ...(await orphanCgroups(rt))]);
  await rt.faults.reach('recovery/orphans-done');
}

/** What cannot be listed keeps nothing else from being released. */
async function orphanCgroups(rt: RuntimeContext): Promise<Orphan[]> {
  try {
    return await findOrphanCgroups(rt);
  } catch (error) {
    rt.log.warn(
      { error: messageOf(error) },
      'cgroups without an owner cannot be looked for: they stay until the next start',
    );
    return [];
  }
}

async function inLane(
  rt: RuntimeContext,
  id: string,
  of: 'sandbox' | 'container',
  turn: Promise<void>,
  work: (op: Op, rt: RuntimeContext, id: string) => Promise<void>,
): Promise<void> {
  try {
    await rt.lanes.enqueue(id, {
      name: `recover the ${of}`,
      timeoutMs: OBJECT_TIMEOUT_MS,
      run: async (op) => {
        await turn;
        await work(op, rt, id);
      },
    });
  } catch (error) {
    rt.log.warn({ id, error: messageOf(error) }, `a ${of} could not be recovered yet`);
    rt.retries.fail(id, { kind: 'recovery', of }, error);
  }
}
