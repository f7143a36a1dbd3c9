import type { ContainerStatus } from '../container/state.ts';
import type { SandboxStatus } from '../sandbox/state.ts';

/** What CRI has words for in the life of a container or sandbox, each at most once and in this order. */
export type LifeEvent = 'created' | 'started' | 'stopped' | 'deleted';

/** How far the life of something that can be seen has come. */
export interface Life {
  readonly started: boolean;
  readonly stopped: boolean;
}

/** Undefined: nobody sees it (yet). A start that failed has stopped without having started. */
export function lifeOfContainer(status: ContainerStatus | undefined): Life | undefined {
  switch (status?.state.kind) {
    case undefined:
    case 'creating':
      return undefined;
    case 'created':
      return { started: false, stopped: false };
    // Out of sight is not ended: the end is told when it is known.
    case 'running':
    case 'unknown':
      return { started: true, stopped: false };
    case 'exited':
      return { started: status.state.startedAtWallMs !== undefined, stopped: true };
  }
}

/** Undefined: nobody sees it (yet). One whose making failed and could not be undone has stopped without having started. */
export function lifeOfSandbox(status: SandboxStatus | undefined): Life | undefined {
  switch (status?.state.kind) {
    case undefined:
    case 'starting':
      return undefined;
    case 'ready':
      return { started: true, stopped: false };
    case 'notready':
      return { started: false, stopped: true };
  }
}

/**
 * What has happened between two looks at the same object, in order. Nothing for a change that CRI has no event for: an exit code
 * that is corrected is still the same exit, and a container that comes back into sight has not started anew. What is gone
 * while it ran has stopped first, so that every STARTED has its STOPPED. Pure.
 */
export function lifeEvents(before: Life | undefined, after: Life | undefined): LifeEvent[] {
  if (after === undefined) {
    if (before === undefined) return [];
    return before.started && !before.stopped ? ['stopped', 'deleted'] : ['deleted'];
  }
  return [
    ...(before === undefined ? (['created'] as const) : []),
    ...(after.started && before?.started !== true && before?.stopped !== true ? (['started'] as const) : []),
    ...(after.stopped && before?.stopped !== true ? (['stopped'] as const) : []),
  ];
}
