import type { RemoveContainerRequest, RemoveContainerResponse } from '../../cri/gen/api.ts';
import { recordStep } from '../../journal/record-step.ts';
import { raceSignal, type Op } from '../../lib/abort.ts';
import { joinErrors } from '../../lib/errors.ts';
import { untilEnded, type GoesOn } from '../../lib/single-flight.ts';
import type { RuntimeContext } from '../context.ts';
import { MAKING_STEPS } from '../making-steps.ts';
import { containerOwner } from '../store/owners.ts';
import { releaseAfterExit } from './clean-up-container.ts';
import { durably } from './durably.ts';
import { transition } from './state.ts';
import { endContainer } from './stop-container.ts';
import { subjectOf } from './subject.ts';

const REMOVE_TIMEOUT_MS = 180_000;

/**
 * Ends the container if it runs, releases all that it holds (the writable layer, too) and forgets it. Removing what is unknown is
 * a success (CRI: idempotent). Durable once asked for: it is finished even if the caller leaves or we are restarted.
 */
export async function removeContainer(
  op: Op,
  rt: RuntimeContext,
  { containerId }: RemoveContainerRequest,
): Promise<RemoveContainerResponse> {
  const id = rt.containers.resolve(containerId);
  if (id !== undefined) await raceSignal(removeContainerById(rt, id, 'RemoveContainer was called'), op.signal);
  return {};
}

/** Whoever asks while a removal runs joins it. */
export function removeContainerById(rt: RuntimeContext, id: string, reason: string): Promise<void> {
  return rt.removals.run(id, (goesOn) => remove(rt, id, reason, goesOn));
}

async function remove(rt: RuntimeContext, id: string, reason: string, goesOn: GoesOn): Promise<void> {
  const record = rt.containers.get(id);
  if (record === undefined) return;
  const subject = subjectOf(rt, record.meta);
  const words = { what: 'container.remove', message: 'container removed', step: 'removal', why: reason };
  try {
    await rt.faults.reach('remove-container/begun');
    await durably(rt.containers, id, (status) =>
      transition(status, { kind: 'removal-wanted', atWallMs: rt.clock.wallMs() }),
    );
    await rt.faults.reach('remove-container/intended');
    if (rt.containers.get(id)?.status.state.kind === 'creating') {
      rt.lanes.abortRunning(id, MAKING_STEPS.container, reason);
    }
    await recordStep(rt, subject, words, async () => {
      await endContainer(rt.background, rt, id, reason);
      await rt.faults.reach('remove-container/ended');
      const run = untilEnded(goesOn, (laneOp) => forget(laneOp, rt, id));
      await rt.lanes.enqueue(id, { name: 'remove the container', timeoutMs: REMOVE_TIMEOUT_MS, run });
    });
  } catch (error) {
    if (rt.containers.get(id) === undefined) return;
    rt.retries.fail(id, { kind: 'container-removal' }, error);
    throw error;
  }
}

async function forget(op: Op, rt: RuntimeContext, id: string): Promise<void> {
  const record = rt.containers.get(id);
  if (record === undefined) return;
  await releaseAfterExit(op, rt, id);
  const failures = await rt.ledger.release(op, containerOwner(id), rt.releasers);
  if (failures.length > 0) throw joinErrors(failures.map((failure) => failure.error));
  await rt.faults.reach('remove-container/released');
  rt.exits.letGo(id);
  await rt.tasks.forgetExit(id);
  await rt.faults.reach('remove-container/exit-forgotten');
  await rt.containers.remove(id);
  await rt.faults.reach('remove-container/forgotten');
  rt.containerNames.release(record.meta.facts.name, id);
  rt.answered.delete(id);
  rt.stops.cancel(id);
  rt.retries.forget(id);
}
