import { raceSignal, type Op } from '../../lib/abort.ts';
import { isKind, messageOf } from '../../lib/errors.ts';
import { untilEnded } from '../../lib/single-flight.ts';
import { cleanUpContainer } from '../container/clean-up-container.ts';
import { removeContainerById } from '../container/remove-container.ts';
import { rollBackContainer } from '../container/undo-create.ts';
import type { RuntimeContext } from '../context.ts';
import { releaseOrphan } from '../recovery/orphans.ts';
import { loseSight, recoverContainer, resumeContainer } from '../recovery/recover-container.ts';
import { recoverSandbox, resumeSandbox } from '../recovery/recover-sandbox.ts';
import { removeSandbox } from '../sandbox/remove-sandbox.ts';
import { stopSandbox } from '../sandbox/stop-sandbox.ts';
import { rollBackSandbox } from '../sandbox/undo-run.ts';
import { cleanupName, type CleanupEvent } from './cleanup-event.ts';

const STEP_TIMEOUT_MS = 120_000;

/** One attempt at an event. Idempotent. Throws while something is left to do. */
export async function handleCleanup(op: Op, rt: RuntimeContext, id: string, event: CleanupEvent): Promise<void> {
  const inLane = (name: string, run: (laneOp: Op) => Promise<void>): Promise<void> =>
    rt.followUps.run(`${cleanupName(event)} ${id}`, (goesOn) =>
      rt.lanes.enqueue(id, { name, timeoutMs: STEP_TIMEOUT_MS, run: untilEnded(goesOn, run) }),
    );
  switch (event.kind) {
    case 'container-cleanup':
      await cleanUpContainer(rt, id);
      return;
    case 'container-removal':
      await removeContainerById(rt, id, 'a removal that was begun');
      return;
    case 'sandbox-release':
      await stopSandbox(rt, id);
      return;
    case 'sandbox-removal':
      await removeSandbox(rt, id);
      return;
    case 'rollback':
      await inLane('roll back', (laneOp) =>
        event.of === 'sandbox' ? rollBackSandbox(laneOp, rt, id) : rollBackContainer(laneOp, rt, id),
      );
      return;
    case 'recovery':
      await recoverAgain(op, rt, id, event.of, inLane);
      return;
    case 'orphan':
      await inLane('release a leftover', (laneOp) =>
        releaseOrphan({ ...laneOp, signal: AbortSignal.any([laneOp.signal, op.signal]) }, rt, event.orphan),
      );
  }
}

async function recoverAgain(
  op: Op,
  rt: RuntimeContext,
  id: string,
  of: 'sandbox' | 'container',
  inLane: (name: string, run: (laneOp: Op) => Promise<void>) => Promise<void>,
): Promise<void> {
  const work = inLane('recover', (laneOp) => (of === 'sandbox' ? recoverSandbox : recoverContainer)(laneOp, rt, id));
  try {
    await raceSignal(work, op.signal);
  } catch (error) {
    // Canceled: we are being stopped, and nothing was found out.
    if (of === 'container' && !isKind(error, 'Canceled')) loseSight(rt, id, messageOf(error));
    throw error;
  }
  if (of === 'sandbox') resumeSandbox(rt, id);
  else resumeContainer(rt, id);
}
