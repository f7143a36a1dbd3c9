import type { RemovePodSandboxRequest, RemovePodSandboxResponse } from '../../cri/gen/api.ts';
import { recordStep } from '../../journal/record-step.ts';
import { raceSignal, type Op } from '../../lib/abort.ts';
import { joinErrors } from '../../lib/errors.ts';
import { settleAll } from '../../lib/settle-all.ts';
import { untilEnded, type GoesOn } from '../../lib/single-flight.ts';
import { durably } from '../container/durably.ts';
import { removeContainerById } from '../container/remove-container.ts';
import type { RuntimeContext } from '../context.ts';
import { sandboxOwner } from '../store/owners.ts';
import { sandboxSubject } from '../store/sandbox-record.ts';
import { transition } from './state.ts';
import { stopSandbox } from './stop-sandbox.ts';

const REMOVE_TIMEOUT_MS = 60_000;

/**
 * Stops the sandbox if it is not, removes all its containers, its folder and its cgroup, and forgets it. Removing what is
 * unknown is a success (CRI: idempotent). Durable once asked for: it is finished even if the caller leaves.
 */
export async function removePodSandbox(
  op: Op,
  rt: RuntimeContext,
  { podSandboxId }: RemovePodSandboxRequest,
): Promise<RemovePodSandboxResponse> {
  const id = rt.sandboxes.resolve(podSandboxId);
  if (id !== undefined) await raceSignal(removeSandbox(rt, id), op.signal);
  return {};
}

/** Whoever asks while a removal runs joins it. */
export function removeSandbox(rt: RuntimeContext, id: string): Promise<void> {
  return rt.removals.run(id, (goesOn) => remove(rt, id, goesOn));
}

async function remove(rt: RuntimeContext, id: string, goesOn: GoesOn): Promise<void> {
  const record = rt.sandboxes.get(id);
  if (record === undefined) return;
  try {
    await rt.faults.reach('remove-sandbox/begun');
    await durably(rt.sandboxes, id, (status) =>
      transition(status, { kind: 'removal-wanted', atWallMs: rt.clock.wallMs() }),
    );
    await rt.faults.reach('remove-sandbox/intended');
    await recordStep(
      rt,
      sandboxSubject(record.meta),
      { what: 'sandbox.remove', message: 'sandbox removed', step: 'removing the sandbox' },
      async () => {
        await stopSandbox(rt, id);
        await rt.faults.reach('remove-sandbox/stopped');
        const containers = rt.containers.list().filter(({ meta }) => meta.facts.sandboxId === id);
        await settleAll(containers.map(({ meta }) => removeContainerById(rt, meta.id, 'its sandbox is being removed')));
        await rt.faults.reach('remove-sandbox/containers-removed');
        const run = untilEnded(goesOn, (laneOp) => forgetSandbox(laneOp, rt, id));
        await rt.lanes.enqueue(id, { name: 'remove the sandbox', timeoutMs: REMOVE_TIMEOUT_MS, run });
      },
    );
  } catch (error) {
    if (rt.sandboxes.get(id) === undefined) return;
    rt.retries.fail(id, { kind: 'sandbox-removal' }, error);
    throw error;
  }
}

async function forgetSandbox(op: Op, rt: RuntimeContext, id: string): Promise<void> {
  const record = rt.sandboxes.get(id);
  if (record === undefined) return;
  const failures = await rt.ledger.release(op, sandboxOwner(id), rt.releasers);
  if (failures.length > 0) throw joinErrors(failures.map((failure) => failure.error));
  await rt.faults.reach('remove-sandbox/released');
  rt.exits.letGo(id);
  await rt.tasks.forgetExit(id);
  await rt.faults.reach('remove-sandbox/exit-forgotten');
  await rt.sandboxes.remove(id);
  await rt.faults.reach('remove-sandbox/forgotten');
  rt.sandboxNames.release(record.meta.facts.name, id);
  rt.answered.delete(id);
  rt.retries.forget(id);
}
