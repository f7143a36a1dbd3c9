import type { ListPodSandboxRequest, ListPodSandboxResponse, PodSandbox } from '../../cri/gen/api.ts';
import { matchesLabels } from '../../cri/label-selector.ts';
import { toNanoseconds } from '../../cri/nanoseconds.ts';
import type { Op } from '../../lib/abort.ts';
import { perObject } from '../../lib/per-object.ts';
import type { RuntimeContext } from '../context.ts';
import type { SandboxRecord } from '../store/sandbox-record.ts';
import { criState } from './sandbox-status.ts';

/** From memory: never waits for a lane or for the world. A sandbox that is still being made is not there yet. */
export function listPodSandbox(
  _op: Op,
  rt: RuntimeContext,
  { filter }: ListPodSandboxRequest,
): Promise<ListPodSandboxResponse> {
  const wanted = filter?.state?.state;
  const items = rt.sandboxes
    .list()
    .filter((record) => record.status.state.kind !== 'starting')
    .filter((record) => filter === undefined || filter.id === '' || record.meta.id.startsWith(filter.id))
    .filter((record) => wanted === undefined || criState(record) === wanted)
    .filter((record) => matchesLabels(record.meta.config.labels, filter?.labelSelector ?? {}))
    .map(shown);
  return Promise.resolve({ items });
}

/** A record never changes. */
const shown = perObject((record: SandboxRecord): PodSandbox => {
  const { meta, status } = record;
  return {
    id: meta.id,
    metadata: meta.config.metadata,
    state: criState(record),
    createdAt: toNanoseconds(status.createdAtWallMs),
    labels: meta.config.labels,
    annotations: meta.config.annotations,
    runtimeHandler: meta.facts.runtimeHandler,
  };
});
