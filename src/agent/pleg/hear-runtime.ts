import type { Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { messageOf } from '../../lib/errors.ts';
import { followContainerEvents } from '../../cri/follow-container-events.ts';
import { ContainerEventType, type ContainerEventResponse } from '../../cri/gen/api.ts';
import type { RuntimeService } from '../../cri/services.ts';
import { LABEL_AGENT } from '../pods/names.ts';

export interface HearRuntimeDeps {
  readonly runtime: Pick<RuntimeService, 'getContainerEvents'>;
  readonly clock: Clock;
  readonly agentId: string;
  /** Something may have happened: look now, and not when the next look is due. */
  readonly hint: () => void;
}

/**
 * Listens to the runtime, in process or behind a socket, so that an exit is seen when it happens. An event only makes the
 * agent look: what it acts on is what it sees then, and what no event told is found by the looks that go on each second.
 */
export async function hearRuntime(op: Op, { runtime, clock, agentId, hint }: HearRuntimeDeps): Promise<void> {
  let quiet = false;
  for await (const news of followContainerEvents(op, runtime, clock)) {
    switch (news.kind) {
      case 'event':
        quiet = false;
        if (concerns(news.event, agentId)) hint();
        break;
      case 'lost':
        hint();
        break;
      case 'ended': {
        // A runtime that has its events switched off ends each stream at once: that is worth one line.
        const error = news.error === undefined ? undefined : messageOf(news.error);
        if (!quiet) op.log.info({ error }, 'the runtime tells no events now: changes are found by listing');
        quiet = true;
        hint();
        break;
      }
      case 'unsupported':
        op.log.info({}, 'the runtime has no container events: changes are found by listing');
    }
  }
}

/** Of a sandbox of ours, or of one that the runtime cannot tell. A container that is only made changes nothing yet. */
function concerns({ containerEventType, podSandboxStatus }: ContainerEventResponse, agentId: string): boolean {
  if (containerEventType === ContainerEventType.CONTAINER_CREATED_EVENT) return false;
  return podSandboxStatus === undefined || podSandboxStatus.labels[LABEL_AGENT] === agentId;
}
