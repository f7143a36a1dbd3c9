import type { Container, ListContainersRequest, ListContainersResponse } from '../../cri/gen/api.ts';
import { matchesLabels } from '../../cri/label-selector.ts';
import { toNanoseconds } from '../../cri/nanoseconds.ts';
import type { Op } from '../../lib/abort.ts';
import { perObject } from '../../lib/per-object.ts';
import type { RuntimeContext } from '../context.ts';
import type { ContainerRecord } from '../store/container-record.ts';
import { criState, shownImage } from './container-status.ts';

/** From memory: never waits for a lane or for the world. A container that is still being made is not there yet. */
export function listContainers(
  _op: Op,
  rt: RuntimeContext,
  { filter }: ListContainersRequest,
): Promise<ListContainersResponse> {
  const wanted = filter?.state?.state;
  const containers = rt.containers
    .list()
    .filter(({ status }) => status.state.kind !== 'creating')
    .filter(({ meta }) => filter === undefined || filter.id === '' || meta.id.startsWith(filter.id))
    .filter(
      ({ meta }) =>
        filter === undefined || filter.podSandboxId === '' || meta.facts.sandboxId.startsWith(filter.podSandboxId),
    )
    .filter(({ status }) => wanted === undefined || criState(status) === wanted)
    .filter(({ meta }) => matchesLabels(meta.config.labels, filter?.labelSelector ?? {}))
    .map(shown);
  return Promise.resolve({ containers });
}

/** A record never changes. */
const shown = perObject((record: ContainerRecord): Container => {
  const { meta, status } = record;
  return {
    id: meta.id,
    podSandboxId: meta.facts.sandboxId,
    metadata: meta.config.metadata,
    image: shownImage(record),
    imageRef: meta.facts.image.ref,
    imageId: meta.facts.image.id,
    state: criState(status),
    createdAt: toNanoseconds(status.createdAtWallMs),
    labels: meta.config.labels,
    annotations: meta.config.annotations,
  };
});
