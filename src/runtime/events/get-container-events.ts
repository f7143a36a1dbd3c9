import { ContainerEventType, type ContainerEventResponse } from '../../cri/gen/api.ts';
import { toNanoseconds } from '../../cri/nanoseconds.ts';
import type { Op } from '../../lib/abort.ts';
import { dataLoss } from '../../lib/errors.ts';
import { shownStatus as shownContainer } from '../container/container-status.ts';
import type { RuntimeContext } from '../context.ts';
import { shownStatus as shownSandbox } from '../sandbox/sandbox-status.ts';
import type { ContainerEvent } from './container-events.ts';
import type { News } from './event-log.ts';
import type { LifeEvent } from './life-events.ts';

const CRI_TYPES = {
  created: ContainerEventType.CONTAINER_CREATED_EVENT,
  started: ContainerEventType.CONTAINER_STARTED_EVENT,
  stopped: ContainerEventType.CONTAINER_STOPPED_EVENT,
  deleted: ContainerEventType.CONTAINER_DELETED_EVENT,
} as const satisfies Record<LifeEvent, ContainerEventType>;

/**
 * CRI's GetContainerEvents, from this call on. A sandbox's events carry its id as the container's. CRI has no sequence numbers and
 * no word for a gap: a reader that is too slow gets DataLoss instead, asks again and lists.
 */
export function getContainerEvents(
  op: Op,
  { events }: Pick<RuntimeContext, 'events'>,
): AsyncIterable<ContainerEventResponse> {
  return shown(events.follow(op));
}

async function* shown(all: AsyncIterable<News<ContainerEvent>>): AsyncGenerator<ContainerEventResponse> {
  for await (const news of all) {
    if (news.kind === 'lost') {
      throw dataLoss(`${String(news.count)} container events are lost, as they were not read in time: list again`);
    }
    yield shownEvent(news.value);
  }
}

function shownEvent({ type, id, atWallMs, sandbox, containers }: ContainerEvent): ContainerEventResponse {
  return {
    containerId: id,
    containerEventType: CRI_TYPES[type],
    createdAt: toNanoseconds(atWallMs),
    podSandboxStatus: sandbox === undefined ? undefined : shownSandbox(sandbox),
    containersStatuses: containers.map(shownContainer),
  };
}
