import { withDeadline, type Op } from '../../lib/abort.ts';
import type { PodRuntimeState } from '../pleg/pod-runtime-state.ts';
import { readPodState } from '../pleg/read-pod-state.ts';
import type { WorkerDeps } from './deps.ts';

/** Lists and statuses answer from memory: a runtime that takes longer is in trouble, and the pod's lane must not hang with it. */
const LOOK_TIMEOUT_MS = 30_000;

/** What the runtime says of a pod now. */
export async function lookAt(op: Op, deps: WorkerDeps, podUid: string): Promise<PodRuntimeState> {
  return await withDeadline(op, deps.clock, LOOK_TIMEOUT_MS, 'looking at the pod', (bounded) =>
    readPodState(bounded, deps.runtime, deps.agentId, podUid),
  );
}
