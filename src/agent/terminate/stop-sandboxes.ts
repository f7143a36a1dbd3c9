import { withDeadline, type Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { isKind, joinErrors, messageOf } from '../../lib/errors.ts';
import type { RuntimeService } from '../../cri/services.ts';
import type { Story, StoryPod } from '../events/story.ts';
import type { PodRuntimeState } from '../pleg/pod-runtime-state.ts';

export interface SandboxDeps {
  readonly runtime: Pick<RuntimeService, 'stopPodSandbox' | 'removePodSandbox'>;
  readonly clock: Clock;
  readonly story: Story;
}

/** A pod whose containers have ended. */
export interface EndedPod {
  readonly pod: StoryPod;
  readonly state: PodRuntimeState;
  /** Sandboxes that have been stopped before; those that are stopped now are added. */
  readonly stopped: Set<string>;
  readonly why: string;
}

const STOP_TIMEOUT_MS = 120_000;
const REMOVE_TIMEOUT_MS = 120_000;

/**
 * Stops every sandbox of a pod whose containers have ended: network and namespaces are given back. One that fails does not
 * keep the others (BEHAVIOUR.md 80); then it throws, to be called again.
 */
export async function stopSandboxes(op: Op, deps: SandboxDeps, { pod, state, stopped, why }: EndedPod): Promise<void> {
  const errors: unknown[] = [];
  for (const { id } of state.sandboxes) {
    if (stopped.has(id)) continue;
    const startedMs = deps.clock.monotonicMs();
    try {
      await withDeadline(op, deps.clock, STOP_TIMEOUT_MS, 'StopPodSandbox', (bounded) =>
        deps.runtime.stopPodSandbox(bounded, { podSandboxId: id }),
      );
      stopped.add(id);
      const durationMs = deps.clock.monotonicMs() - startedMs;
      deps.story.tell({
        pod,
        sandboxId: id,
        what: 'pod.sandbox-stopped',
        message: 'the sandbox is stopped',
        why,
        outcome: 'ok',
        durationMs,
      });
    } catch (error) {
      if (op.signal.aborted) throw error;
      errors.push(error);
      deps.story.tell({
        pod,
        sandboxId: id,
        what: 'pod.sandbox-stop-failed',
        message: `error killing pod: failed to "KillPodSandbox" for "${pod.uid}": ${messageOf(error)}`,
        why,
        outcome: 'failed',
        event: { type: 'Warning', reason: 'FailedKillPod' },
      });
    }
  }
  if (errors.length > 0) throw joinErrors(errors);
}

/** Removes every sandbox with its containers; the runtime takes the pod's cgroup with the last one. */
export async function removeSandboxes(op: Op, deps: SandboxDeps, pod: StoryPod, state: PodRuntimeState): Promise<void> {
  for (const { id } of state.sandboxes) {
    const startedMs = deps.clock.monotonicMs();
    try {
      await withDeadline(op, deps.clock, REMOVE_TIMEOUT_MS, 'RemovePodSandbox', (bounded) =>
        deps.runtime.removePodSandbox(bounded, { podSandboxId: id }),
      );
    } catch (error) {
      if (!isKind(error, 'NotFound')) throw error;
    }
    const durationMs = deps.clock.monotonicMs() - startedMs;
    deps.story.tell({
      pod,
      sandboxId: id,
      what: 'pod.sandbox-removed',
      message: 'the sandbox is removed',
      outcome: 'ok',
      durationMs,
    });
  }
}
