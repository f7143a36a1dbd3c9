import { childSignal, type Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { joinErrors } from '../../lib/errors.ts';
import type { RuntimeService } from '../../cri/services.ts';
import type { Lifecycle } from '../../kube/objects.ts';
import type { Story, StoryPod } from '../events/story.ts';
import { runPreStop } from '../lifecycle/pre-stop.ts';
import type { RuntimeContainer } from '../pleg/pod-runtime-state.ts';
import type { Deadline } from './deadline.ts';

export interface KillDeps {
  readonly runtime: Pick<RuntimeService, 'execSync' | 'stopContainer'>;
  readonly clock: Clock;
  readonly story: Story;
}

export interface ContainerToKill {
  readonly pod: StoryPod;
  readonly container: RuntimeContainer;
  readonly lifecycle: Lifecycle | undefined;
  readonly why: string;
  readonly deadline: Deadline;
  /** Its preStop hook has been carried out by an earlier agent process. */
  readonly hookDone: boolean;
  readonly onHookDone: () => Promise<void>;
}

/** What the runtime gets beyond the grace to answer that a container has been killed, as kubelet gives it. */
const STOP_EXTRA_MS = 120_000;

/**
 * Ends one container: Killing event, preStop hook, stop signal, wait, SIGKILL, all before one deadline. Resolves when the
 * runtime says that it has ended; throws when that could not be brought about (StopContainer's error names what stands in
 * the way), and may then be called again.
 */
export async function killContainer(op: Op, deps: KillDeps, target: ContainerToKill): Promise<void> {
  const { pod, container, deadline, why } = target;
  const about = { pod, container: container.name, containerId: container.id, why };
  deps.story.tell({
    ...about,
    what: 'container.killing',
    message: `Stopping container ${container.name}`,
    data: { remainingMs: deadline.remainingMs() },
    event: { type: 'Normal', reason: 'Killing' },
  });
  await preStop(op, deps, target, about);
  const startedMs = deps.clock.monotonicMs();
  await stopUntilDeadline(op, deps, target);
  deps.story.tell({
    ...about,
    what: 'container.stopped',
    message: `Container ${container.name} has been stopped`,
    outcome: 'ok',
    durationMs: deps.clock.monotonicMs() - startedMs,
  });
}

async function preStop(
  op: Op,
  deps: KillDeps,
  target: ContainerToKill,
  about: { pod: StoryPod; container: string; containerId: string; why: string },
): Promise<void> {
  const hook = target.lifecycle?.preStop;
  // A process that the runtime has lost sight of cannot be asked to run anything.
  if (hook === undefined || target.hookDone || target.container.state.kind !== 'running') return;
  if (target.deadline.remainingMs() <= 0) return;
  const startedMs = deps.clock.monotonicMs();
  const outcome = await runPreStop(op, deps, hook, target.container.id, target.deadline);
  const durationMs = deps.clock.monotonicMs() - startedMs;
  await target.onHookDone();
  if (outcome.kind === 'done') {
    deps.story.tell({
      ...about,
      what: 'container.pre-stop',
      message: 'the preStop hook has run',
      outcome: 'ok',
      durationMs,
    });
    return;
  }
  const detail = outcome.kind === 'failed' ? outcome.message : 'the grace period ended before the hook did';
  deps.story.tell({
    ...about,
    what: 'container.pre-stop',
    message: `PreStopHook failed: ${detail}`,
    outcome: 'failed',
    durationMs,
    event: { type: 'Warning', reason: 'FailedPreStopHook' },
  });
}

/**
 * StopContainer with what is left of the grace. When the deadline comes nearer meanwhile, a second, shorter StopContainer
 * tells the runtime at once; the first one answers when the container has ended, as always.
 */
async function stopUntilDeadline(op: Op, deps: KillDeps, target: ContainerToKill): Promise<void> {
  const { container, deadline } = target;
  using whole = childSignal(op.signal);
  const stop = async (): Promise<void> => {
    const timeoutSeconds = deadline.remainingSeconds();
    using child = childSignal(whole.signal, {
      clock: deps.clock,
      timeoutMs: timeoutSeconds * 1000 + STOP_EXTRA_MS,
      what: `StopContainer ${container.id}`,
    });
    const request = { containerId: container.id, timeout: BigInt(timeoutSeconds) };
    await deps.runtime.stopContainer({ ...op, signal: child.signal }, request);
  };
  const running = new Set<Promise<void>>();
  const errors: unknown[] = [];
  const ended = Promise.withResolvers<true>();
  const begin = (): void => {
    const one = stop();
    running.add(one);
    // The first that says "ended" is believed; only when all have failed is it a failure.
    one.then(
      () => ended.resolve(true),
      (error: unknown) => {
        errors.push(error);
        running.delete(one);
        if (running.size === 0) ended.reject(joinErrors(errors));
      },
    );
  };
  const listening = deadline.onShortened(begin);
  try {
    begin();
    await ended.promise;
  } finally {
    listening[Symbol.dispose]();
  }
}
