import type { Op } from '../../lib/abort.ts';
import { messageOf } from '../../lib/errors.ts';
import type { NodePod } from '../pods/node-pod.ts';
import { latestOf, type PodRuntimeState } from '../pleg/pod-runtime-state.ts';
import type { Waiting } from '../status/container-status.ts';
import {
  computePodActions,
  type ContainerKill,
  type PodActions,
  type PodOutcome,
} from '../sync/compute-pod-actions.ts';
import { createSandbox } from './create-sandbox.ts';
import type { WorkerDeps } from './deps.ts';
import type { ExitAges } from './exit-ages.ts';
import type { FailedSandbox } from './failed-sandbox.ts';
import type { FailedStarts } from './failed-starts.ts';
import { lookAt } from './look-at.ts';
import type { Removals } from './removals.ts';
import { startContainer } from './start-container.ts';

export interface SyncContext {
  readonly pod: NodePod;
  readonly failedStarts: FailedStarts;
  readonly failedSandbox: FailedSandbox;
  readonly exitAges: ExitAges;
  /** Ends a container whose definition has changed, beside the worker; the same one again does nothing. */
  readonly kill: (kill: ContainerKill, state: PodRuntimeState) => void;
  readonly removals: Removals;
  /** Ends of containers whose back-off has been told of, by container id. */
  readonly backOffsTold: Set<string>;
  /** Sandboxes that this worker has stopped. */
  readonly stopped: Set<string>;
  /** What this pass has seen and decided; it is told when the pass is over, or when something changes while it goes on. */
  readonly note: (report: SyncReport) => void;
  /** Tells how things stand. */
  readonly report: (report: SyncReport) => void;
}

export interface SyncReport {
  readonly state: PodRuntimeState;
  readonly waiting: ReadonlyMap<string, Waiting>;
  readonly outcome?: PodOutcome;
}

export interface SyncResult extends SyncReport {
  /** Come back after so long at the latest, even if nothing happens. */
  readonly againInMs: number | undefined;
}

/** Steps of one pass that lead to the next at once (sandbox, then containers). More would be a fault of ours. */
const MAX_ROUNDS = 6;

/** One pass over a pod that should run: look, decide, act, until there is nothing to do now. */
export async function syncPod(op: Op, deps: WorkerDeps, context: SyncContext): Promise<SyncResult> {
  const { pod } = context;
  let report: SyncReport = { state: { uid: pod.uid, sandboxes: [], containers: [] }, waiting: new Map() };
  let againInMs: number | undefined;
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const state = await lookAt(op, deps, pod.uid);
    const exitAgesMs = context.exitAges.update(state);
    const failedStarts = context.failedStarts.view();
    const actions = computePodActions({
      ...{ pod, state, bootId: deps.bootId, exitAgesMs, failedStarts },
      stopped: context.stopped,
    });
    tellBackOffs(deps, context, state, actions);
    const waiting = new Map<string, Waiting>(actions.waiting.map((wait) => [wait.name, wait]));
    againInMs = soonest(actions.waiting.map((wait) => wait.retryInMs));
    report = { state, waiting, ...(actions.outcome === undefined ? {} : { outcome: actions.outcome }) };
    if (actions.outcome !== undefined) break;
    context.note(report);
    // A sandbox takes its time: what is known is told before. Elsewhere only the result of a pass is told, once.
    if (actions.createSandbox !== undefined) context.report(report);
    const progress = await carryOut(op, deps, context, { state, actions, waiting });
    againInMs = soonest([againInMs, progress.againInMs]);
    if (!progress.changed) break;
  }
  context.report(report);
  return { ...report, againInMs };
}

/** What a look at the pod has come to. */
interface Decision {
  readonly state: PodRuntimeState;
  readonly actions: PodActions;
  /** By container; those whose start fails now are added. */
  readonly waiting: Map<string, Waiting>;
}

interface Progress {
  readonly changed: boolean;
  readonly againInMs: number | undefined;
}

async function carryOut(
  op: Op,
  deps: WorkerDeps,
  context: SyncContext,
  { state, actions, waiting }: Decision,
): Promise<Progress> {
  for (const kill of actions.kill) context.kill(kill, state);
  const cleaned = await cleanUp(op, deps, context, actions);
  if (actions.createSandbox !== undefined) {
    const retryInMs = context.failedSandbox.retryInMs();
    if (retryInMs > 0) return { changed: false, againInMs: retryInMs };
    try {
      await createSandbox(op, deps, context.pod, actions.createSandbox);
    } catch (error) {
      if (!op.signal.aborted) context.failedSandbox.note(messageOf(error));
      throw error;
    }
    context.failedSandbox.clear();
    return { changed: true, againInMs: undefined };
  }
  const started = await startContainers(op, deps, context, actions, waiting);
  return { changed: cleaned || started.changed, againInMs: started.againInMs };
}

function tellBackOffs(deps: WorkerDeps, context: SyncContext, state: PodRuntimeState, actions: PodActions): void {
  const { pod, backOffsTold } = context;
  for (const { name, reason, message, retryInMs } of actions.waiting) {
    const ended = latestOf(state, name);
    if (reason !== 'CrashLoopBackOff' || ended === undefined || backOffsTold.has(ended.id)) continue;
    backOffsTold.add(ended.id);
    deps.story.tell({
      pod,
      container: name,
      containerId: ended.id,
      what: 'pod.container-back-off',
      message,
      data: { retryInMs },
      event: {
        type: 'Warning',
        reason: 'BackOff',
        message: `Back-off restarting failed container ${name} in pod ${pod.name}_${pod.namespace}(${pod.uid})`,
      },
    });
  }
  const present = new Set(state.containers.map(({ id }) => id));
  for (const id of backOffsTold) if (!present.has(id)) backOffsTold.delete(id);
}

async function startContainers(
  op: Op,
  deps: WorkerDeps,
  { pod, failedStarts }: SyncContext,
  actions: PodActions,
  waiting: Map<string, Waiting>,
): Promise<Progress> {
  const volumes = deps.volumes.ofPod(pod);
  // The volume manager wakes the pod when its volumes are ready.
  if (actions.sandbox === undefined || actions.start.length === 0) return { changed: false, againInMs: undefined };
  if (!volumes.ready) return { changed: false, againInMs: undefined };
  let changed = false;
  let againInMs: number | undefined;
  for (const start of actions.start) {
    const context = { pod, sandbox: actions.sandbox, volumePaths: volumes.paths, failedStarts };
    const outcome = await startContainer(op, deps, context, start);
    if (outcome.kind === 'started') changed = true;
    if (outcome.kind === 'pulling') break;
    if (outcome.kind === 'failed') {
      waiting.set(start.container.name, { reason: outcome.reason, message: outcome.message });
      againInMs = soonest([againInMs, outcome.retryInMs]);
    }
  }
  return { changed, againInMs };
}

/** Old sandboxes and dead containers. What cannot be taken away now is tried again in the next pass, and holds nobody up. */
async function cleanUp(
  op: Op,
  deps: WorkerDeps,
  { pod, removals, stopped }: SyncContext,
  actions: PodActions,
): Promise<boolean> {
  let changed = false;
  for (const { id } of actions.stopSandboxes) {
    try {
      // Waited for: what takes its place may need what it gives back.
      await deps.runtime.stopPodSandbox(op, { podSandboxId: id });
      stopped.add(id);
      changed = true;
    } catch (error) {
      if (op.signal.aborted) throw error;
      const fields = { podUid: pod.uid, what: 'StopPodSandbox', error: messageOf(error) };
      op.log.warn(fields, 'clean-up of an old run failed');
    }
  }
  for (const id of actions.removeContainers) removals.container(id);
  // After its containers, and those wake the pod.
  if (actions.removeContainers.length > 0) return changed;
  for (const id of actions.removeSandboxes) removals.sandbox(id);
  return changed;
}

function soonest(times: readonly (number | undefined)[]): number | undefined {
  const given = times.filter((time) => time !== undefined);
  return given.length === 0 ? undefined : Math.min(...given);
}
