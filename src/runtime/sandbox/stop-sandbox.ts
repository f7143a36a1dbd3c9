import type { StopPodSandboxRequest, StopPodSandboxResponse } from '../../cri/gen/api.ts';
import { recordStep } from '../../journal/record-step.ts';
import { raceSignal, type Op } from '../../lib/abort.ts';
import { settleAll } from '../../lib/settle-all.ts';
import { untilEnded, type GoesOn } from '../../lib/single-flight.ts';
import { durably } from '../container/durably.ts';
import { endContainer } from '../container/stop-container.ts';
import type { RuntimeContext } from '../context.ts';
import { MAKING_STEPS } from '../making-steps.ts';
import { sandboxSubject } from '../store/sandbox-record.ts';
import { releaseSandbox } from './release-sandbox.ts';
import { transition } from './state.ts';

/** Beyond the sum of the parts' own budgets: only a part that ignores its own is met by this one. */
export const RELEASE_TIMEOUT_MS = 150_000;

/**
 * Ends all containers of the sandbox side by side (SIGKILL at once: a grace period is given with StopContainer), then
 * releases network and namespaces. Stopping what is stopped, or unknown, is a success (CRI: idempotent).
 * The stop goes on if the caller leaves.
 */
export async function stopPodSandbox(
  op: Op,
  rt: RuntimeContext,
  { podSandboxId }: StopPodSandboxRequest,
): Promise<StopPodSandboxResponse> {
  const id = rt.sandboxes.resolve(podSandboxId);
  if (id !== undefined) await raceSignal(stopSandbox(rt, id), op.signal);
  return {};
}

/** Whoever asks while a stop runs joins it. */
export function stopSandbox(rt: RuntimeContext, id: string): Promise<void> {
  return rt.sandboxStops.run(id, (goesOn) => stop(rt, id, goesOn));
}

async function stop(rt: RuntimeContext, id: string, goesOn: GoesOn): Promise<void> {
  const record = rt.sandboxes.get(id);
  if (record === undefined || record.status.stopped === true) return;
  if (record.status.state.kind === 'starting') {
    rt.lanes.abortRunning(id, MAKING_STEPS.sandbox, 'the sandbox is being stopped');
  }
  try {
    await rt.faults.reach('stop-sandbox/begun');
    await durably(rt.sandboxes, id, (status) =>
      transition(status, { kind: 'stop-wanted', atWallMs: rt.clock.wallMs() }),
    );
    await rt.faults.reach('stop-sandbox/intended');
    await recordStep(
      rt,
      sandboxSubject(record.meta),
      { what: 'sandbox.stop', message: 'sandbox stopped', step: 'stopping the sandbox' },
      async () => {
        const containers = rt.containers.list().filter(({ meta }) => meta.facts.sandboxId === id);
        await settleAll(
          containers.map(({ meta }) => endContainer(rt.background, rt, meta.id, 'its sandbox is being stopped')),
        );
        await rt.faults.reach('stop-sandbox/containers-ended');
        const run = untilEnded(goesOn, (laneOp) => releaseSandbox(laneOp, rt, id));
        await rt.lanes.enqueue(id, { name: 'release the sandbox', timeoutMs: RELEASE_TIMEOUT_MS, run });
      },
    );
  } catch (error) {
    // A container that SIGKILL does not end, or a release that failed: tried again in the background, whether or not the caller is.
    // Gone meanwhile: a run that was cut short was undone, or somebody removed it.
    if (rt.sandboxes.get(id) === undefined) return;
    rt.retries.fail(id, { kind: 'sandbox-release' }, error);
    throw error;
  }
}
