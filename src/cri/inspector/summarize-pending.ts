import { rfc3339 } from '../../lib/clock.ts';
import type { PendingItem } from './inspector.ts';

export interface PendingSummary {
  readonly what: string;
  readonly message: string;
  readonly since: string;
  readonly attempts: number;
  readonly lastError?: string;
  readonly nextAttempt?: string;
}

/** One piece of work for people, with times as the API has them. */
export function summarizePending(item: PendingItem): PendingSummary {
  const { containerName } = item.subject;
  return {
    what: item.kind,
    message: containerName === undefined ? item.message : `container ${containerName}: ${item.message}`,
    since: rfc3339(item.sinceWallMs),
    attempts: item.attempts,
    ...(item.lastError === undefined ? {} : { lastError: item.lastError }),
    ...(item.nextAttemptWallMs === undefined ? {} : { nextAttempt: rfc3339(item.nextAttemptWallMs) }),
  };
}
