import type { UpdatePodSandboxResourcesRequest, UpdatePodSandboxResourcesResponse } from '../../cri/gen/api.ts';
import { recordStep } from '../../journal/record-step.ts';
import { raceSignal, type Op } from '../../lib/abort.ts';
import { failedPrecondition, isKind, notFound } from '../../lib/errors.ts';
import type { RuntimeContext } from '../context.ts';
import { changeLimits, endLimitsChange } from '../limits/change-limits.ts';
import type { PodResources } from '../limits/pod-resources.ts';
import { inCgroupLane } from '../release-table.ts';
import { sandboxOwner } from '../store/owners.ts';
import { sandboxSubject } from '../store/sandbox-record.ts';
import { asked, checkPodResources, podLimits, podResourcesOf } from './pod-limits.ts';
import { isReady, transition } from './state.ts';

const UPDATE_TIMEOUT_MS = 60_000;

/**
 * Changes what a pod may use as a whole. Where the pod's cgroup is ours its limits are changed; where it is the caller's (kubelet's) they are
 * his, and what he says is kept. What the request does not say stays. All of it, or nothing.
 * Throws NotFound, FailedPrecondition (the sandbox is not READY; more memory is in use), InvalidArgument.
 */
export async function updatePodSandboxResources(
  op: Op,
  rt: RuntimeContext,
  { podSandboxId, resources, overhead }: UpdatePodSandboxResourcesRequest,
): Promise<UpdatePodSandboxResourcesResponse> {
  const id = rt.sandboxes.resolve(podSandboxId);
  const record = id === undefined ? undefined : rt.sandboxes.get(id);
  if (id === undefined || record === undefined || record.status.state.kind === 'starting') {
    throw notFound(`sandbox ${podSandboxId} not found`);
  }
  await checkPodResources(rt, { resources, overhead });
  const words = {
    what: 'sandbox.update',
    message: "the pod's resources updated",
    step: "updating the pod's resources",
  };
  const updated = rt.lanes.enqueue(id, {
    name: 'update resources',
    timeoutMs: UPDATE_TIMEOUT_MS,
    run: () => recordStep(rt, sandboxSubject(record.meta), words, () => update(rt, id, asked(resources, overhead))),
  });
  await raceSignal(updated, op.signal);
  return {};
}

async function update(rt: RuntimeContext, id: string, said: PodResources): Promise<void> {
  await endSandboxLimitsChange(rt, id);
  const record = rt.sandboxes.must(id);
  if (!isReady(record.status) || record.status.stopping !== undefined) {
    throw failedPrecondition(`sandbox ${id} is not ready: its resources cannot be updated any more`);
  }
  const now = podResourcesOf(record);
  const to: PodResources = {
    resources: { ...now.resources, ...said.resources },
    overhead: { ...now.overhead, ...said.overhead },
  };
  const settle = (resources?: PodResources): Promise<void> => settleLimits(rt, id, resources);
  const { cgroupPath } = record.meta.facts;
  if (!rt.ledger.entriesOf(sandboxOwner(id)).some(({ kind, key }) => kind === 'cgroup' && key === cgroupPath)) {
    await settle(to);
    return;
  }
  try {
    await inCgroupLane(rt.lanes, cgroupPath, () =>
      changeLimits(rt, {
        cgroupPath,
        known: podLimits(now),
        wanted: podLimits(to),
        to,
        intend: async (intent) => {
          await rt.sandboxes.update(id, (status) => transition(status, { kind: 'limits-intended', intent }));
        },
        settle,
      }),
    );
  } catch (error) {
    if (isKind(error, 'NotFound')) throw failedPrecondition(`sandbox ${id}: its cgroup is gone`, { cause: error });
    throw error;
  }
}

async function settleLimits(rt: RuntimeContext, id: string, resources?: PodResources): Promise<void> {
  const event = { kind: 'limits-settled', ...(resources === undefined ? {} : { resources }) } as const;
  // What came to nothing came to nothing, whatever the disk says.
  if (resources === undefined) rt.sandboxes.publishFirst(id, (status) => transition(status, event));
  else await rt.sandboxes.update(id, (status) => transition(status, event));
}

/** Ends an update that a daemon that was killed had begun, if there is one. In the sandbox's lane. */
export async function endSandboxLimitsChange(rt: RuntimeContext, id: string): Promise<void> {
  const intent = rt.sandboxes.get(id)?.status.limitsIntent;
  if (intent === undefined) return;
  await endLimitsChange(rt, intent, async (resources) => {
    await rt.sandboxes.update(id, (status) =>
      transition(status, { kind: 'limits-settled', ...(resources === undefined ? {} : { resources }) }),
    );
  });
}
