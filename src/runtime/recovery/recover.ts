import { messageOf } from '../../lib/errors.ts';
import type { Op } from '../../lib/abort.ts';
import type { RuntimeContext } from '../context.ts';
import type { Orphan } from './orphan.ts';
import { releaseOrphans } from './orphans.ts';
import { recoverContainer, resumeContainer } from './recover-container.ts';
import { recoverSandbox, resumeSandbox } from './recover-sandbox.ts';

/** Budget of one object (BEHAVIOUR.md C2). A slow one is tried again; nothing is killed because it is slow. */
const OBJECT_TIMEOUT_MS = 10_000;

/**
 * Assumes only what cannot be otherwise while no gantryd runs: our own files were left alone, nothing of ours was added;
 * processes may have ended, mounts may be gone, the machine may have been restarted.
 *
 * Objects are recovered side by side, each in its lane: what is asked of one meanwhile waits for it there, while lists show
 * the last known state. When all have been looked at, what was on its way goes on.
 */
export async function recover(rt: RuntimeContext, orphans: readonly Orphan[]): Promise<void> {
  const sandboxIds = rt.sandboxes.list().map(({ meta }) => meta.id);
  const containerIds = rt.containers.list().map(({ meta }) => meta.id);
  await Promise.all([
    ...containerIds.map((id) => inLane(rt, id, 'container', recoverContainer)),
    ...sandboxIds.map((id) => inLane(rt, id, 'sandbox', recoverSandbox)),
  ]);
  await rt.faults.reach('recovery/objects-done');
  // Armed only now that the store has every object: so nothing can be told and not be found (BEHAVIOUR.md T3).
  rt.exits.look();
  for (const id of containerIds) resumeContainer(rt, id);
  for (const id of sandboxIds) resumeSandbox(rt, id);
  await rt.faults.reach('recovery/resumed');
  await releaseOrphans(rt, orphans);
  await rt.faults.reach('recovery/orphans-done');
}

async function inLane(
  rt: RuntimeContext,
  id: string,
  of: 'sandbox' | 'container',
  work: (op: Op, rt: RuntimeContext, id: string) => Promise<void>,
): Promise<void> {
  try {
    await rt.lanes.enqueue(id, {
      name: `recover the ${of}`,
      timeoutMs: OBJECT_TIMEOUT_MS,
      run: (op) => work(op, rt, id),
    });
  } catch (error) {
    rt.log.warn({ id, error: messageOf(error) }, `a ${of} could not be recovered yet`);
    rt.retries.fail(id, { kind: 'recovery', of }, error);
  }
}
