import type { UpdateContainerResourcesRequest, UpdateContainerResourcesResponse } from '../../cri/gen/api.ts';
import { recordStep } from '../../journal/record-step.ts';
import { raceSignal, type Op } from '../../lib/abort.ts';
import { failedPrecondition, invalidArgument, isKind, notFound, unavailable } from '../../lib/errors.ts';
import type { RuntimeContext } from '../context.ts';
import { changeLimits, endLimitsChange } from '../limits/change-limits.ts';
import { checkResources } from '../limits/check-resources.ts';
import type { ResourcesInput } from '../oci/container-spec-input.ts';
import type { ContainerRecord } from '../store/container-record.ts';
import { mergeResources, resourcesOf } from './resources.ts';
import { describe, taskOf, transition, type ContainerStatus } from './state.ts';
import { subjectOf } from './subject.ts';

/** The kernel may have to take memory away first, which is slow where it must be written to a swap disk. */
const UPDATE_TIMEOUT_MS = 60_000;

/**
 * Changes what a container may use: at once in its cgroup when it runs, at its start when it is CREATED. What the request does not say
 * stays. Either all of it holds afterwards, in the cgroup and in the record, or nothing (docs/decisions, "Limits are written by Gantry").
 * Throws NotFound, InvalidArgument, FailedPrecondition (it has ended; more memory is in use; the host cannot), Unavailable.
 */
export async function updateContainerResources(
  op: Op,
  rt: RuntimeContext,
  { containerId, linux }: UpdateContainerResourcesRequest,
): Promise<UpdateContainerResourcesResponse> {
  const id = rt.containers.resolve(containerId);
  const record = id === undefined ? undefined : rt.containers.get(id);
  if (id === undefined || record === undefined || record.status.state.kind === 'creating') {
    throw notFound(`container ${containerId} not found`);
  }
  if (linux === undefined) throw invalidArgument('UpdateContainerResources: no resources for Linux');
  await checkResources(linux, rt.cgroups);
  const updated = rt.lanes.enqueue(id, {
    name: 'update resources',
    timeoutMs: UPDATE_TIMEOUT_MS,
    run: () => {
      const now = rt.containers.must(id);
      const wanted = mergeResources(resourcesOf(now), linux);
      const words = { what: 'container.update', message: 'resources updated', step: 'updating the resources' };
      return recordStep(rt, subjectOf(rt, now.meta), words, () => update(rt, now, wanted));
    },
  });
  await raceSignal(updated, op.signal);
  return {};
}

async function update(rt: RuntimeContext, record: ContainerRecord, wanted: ResourcesInput): Promise<void> {
  const { meta, status } = record;
  const { id } = meta;
  mustTakeUpdate(id, status);
  const now = resourcesOf(record);
  const limits = rt.specs.limits(wanted, now);
  const settle = async (resources?: ResourcesInput): Promise<void> => {
    const event = { kind: 'limits-settled', ...(resources === undefined ? {} : { resources }) } as const;
    // What came to nothing came to nothing, whatever the disk says.
    if (resources === undefined) rt.containers.publishFirst(id, (current) => transition(current, event));
    else await rt.containers.update(id, (current) => transition(current, event));
  };
  const task = status.state.kind === 'running' ? taskOf(status) : undefined;
  if (task === undefined) {
    await settle(wanted);
    return;
  }
  await endContainerLimitsChange(rt, id);
  try {
    await changeLimits(rt, {
      cgroupPath: task.cgroupPath,
      known: rt.specs.limits(now, now),
      wanted: limits,
      to: wanted,
      intend: async (intent) => {
        await rt.containers.update(id, (current) => transition(current, { kind: 'limits-intended', intent }));
      },
      settle,
    });
  } catch (error) {
    // Its cgroup: NotFound would say that there is no such container.
    if (isKind(error, 'NotFound')) throw failedPrecondition(`container ${id} has ended`, { cause: error });
    throw error;
  }
}

function mustTakeUpdate(id: string, status: ContainerStatus): void {
  const { state, start, removing } = status;
  const can = state.kind === 'created' || state.kind === 'running';
  if (state.kind === 'unknown' || (state.kind === 'created' && start !== undefined)) {
    throw unavailable(
      `container ${id} is ${describe(status)}: its resources cannot be updated until it is known what it does`,
    );
  }
  if (!can || removing !== undefined) {
    throw failedPrecondition(`container ${id} is ${describe(status)}: its resources cannot be updated any more`);
  }
}

/** Ends an update that a daemon that was killed had begun, if there is one. In the container's lane. */
export async function endContainerLimitsChange(rt: RuntimeContext, id: string): Promise<void> {
  const status = rt.containers.get(id)?.status;
  if (status?.limitsIntent === undefined || status.state.kind !== 'running') return;
  await endLimitsChange(rt, status.limitsIntent, (resources) => {
    const event = { kind: 'limits-settled', ...(resources === undefined ? {} : { resources }) } as const;
    rt.containers.publishFirst(id, (current) => transition(current, event));
    return Promise.resolve();
  });
}
