import { backoffDelayMs, CRASH_BACKOFF } from '../../lib/backoff.ts';
import type { Container, PodSpec } from '../../kube/objects.ts';
import { podKey, type NodePod } from '../pods/node-pod.ts';
import {
  hasExited,
  lastExitedOf,
  latestOf,
  mayBeAlive,
  type ExitedState,
  type PodRuntimeState,
  type RuntimeContainer,
  type RuntimeSandbox,
} from '../pleg/pod-runtime-state.ts';
import { containerHash } from './container-hash.ts';

export interface PlanInput {
  readonly pod: NodePod;
  readonly state: PodRuntimeState;
  /** Of the machine as it runs now. */
  readonly bootId: string;
  /** Sandboxes that are known to be stopped; that one is not ready does not say so, and it keeps its address until then. */
  readonly stopped: ReadonlySet<string>;
  /** Starts that failed before there was a container, by container name. */
  readonly failedStarts: ReadonlyMap<string, FailedStart>;
  /** How long ago a container's end was, by container id, on a clock that never steps back. */
  readonly exitAgesMs: ReadonlyMap<string, number>;
}

export interface FailedStart {
  readonly reason: string;
  readonly message: string;
  /** 0: try again now. */
  readonly retryInMs: number;
}

/** What to do next for a pod that should run. */
export interface PodActions {
  /** All has ended and nothing will be started any more. */
  readonly outcome?: PodOutcome;
  readonly createSandbox?: { readonly attempt: number; readonly why: string };
  /** The sandbox that containers are started in: absent while there is none to use. */
  readonly sandbox?: RuntimeSandbox;
  /** Sandboxes that nothing runs in any more, to be stopped. */
  readonly stopSandboxes: readonly { readonly id: string; readonly why: string }[];
  readonly removeSandboxes: readonly string[];
  readonly kill: readonly ContainerKill[];
  /** In the order of the manifest. */
  readonly start: readonly ContainerStart[];
  readonly waiting: readonly ContainerWait[];
  readonly removeContainers: readonly string[];
}

export type PodOutcome = 'Succeeded' | 'Failed';

export interface ContainerKill {
  readonly id: string;
  readonly name: string;
  readonly why: string;
}

export interface ContainerStart {
  readonly container: Container;
  readonly attempt: number;
  readonly crashes: number;
  readonly why: string;
  /** A container that was created and never started: it is taken up, not made again. */
  readonly createdId?: string;
}

export interface ContainerWait {
  readonly name: string;
  readonly reason: string;
  readonly message: string;
  readonly retryInMs: number;
}

/** The runtime finds out about a container that it lost sight of by itself: we only look. */
const LOOK_AGAIN_MS = 1_000;

/** A container that ran so long has recovered: its crash back-off begins anew. */
export const CRASH_RESET_MS = 600_000;

/** Decides; touches nothing. Carried out and planned again with the new state, it converges on "nothing to do". */
export function computePodActions(input: PlanInput): PodActions {
  const { pod, state } = input;
  const usable = usableSandbox(pod.spec, state);
  const decisions = pod.spec.containers.map((container) => decide(input, container, usable));
  const outcome = outcomeOf(pod, state, decisions);
  const starts = outcome === undefined ? decisions.flatMap((decision) => decision.start ?? []) : [];
  const isStray = (one: RuntimeContainer): boolean =>
    one.sandboxId !== usable?.id || one.id !== latestOf(state, one.name)?.id;
  const strays = state.containers.filter((one) => mayBeAlive(one) && isStray(one));
  const kill = [
    ...decisions.flatMap((decision) => decision.kill ?? []),
    ...strays.map(({ id, name }) => ({ id, name, why: 'it runs beside what the pod asks for' })),
  ];
  const stale = state.sandboxes.filter((sandbox) => sandbox.id !== usable?.id);
  const needsSandbox = usable === undefined && outcome === undefined && starts.length > 0 && strays.length === 0;
  const removeContainers = deadBeyondLast(state);
  const removeSandboxes = removableSandboxes(state, stale, removeContainers);
  const mayStop = ({ id }: RuntimeSandbox): boolean => !strays.some((one) => one.sandboxId === id);
  // What is over waits until all is started: the network that it has to be taken off may be slow.
  const over = starts.length > 0 ? [] : supersededSandboxes(input, stale, removeSandboxes);
  return {
    ...(outcome === undefined ? {} : { outcome }),
    ...(needsSandbox ? { createSandbox: nextSandbox(state) } : {}),
    ...(usable === undefined ? {} : { sandbox: usable }),
    kill,
    stopSandboxes: [...stale.filter(({ ready }) => ready), ...over]
      .filter(mayStop)
      .map(({ id }) => ({ id, why: 'another sandbox has taken its place' })),
    removeSandboxes,
    start: usable === undefined ? [] : starts,
    waiting: outcome === undefined ? decisions.flatMap((decision) => decision.wait ?? []) : [],
    removeContainers,
  };
}

/** The newest sandbox, if it is ready and has its address. */
function usableSandbox(spec: PodSpec, state: PodRuntimeState): RuntimeSandbox | undefined {
  const [newest] = state.sandboxes;
  if (newest?.ready !== true) return undefined;
  return spec.hostNetwork === true || newest.ips.length > 0 ? newest : undefined;
}

function nextSandbox(state: PodRuntimeState): { attempt: number; why: string } {
  const [newest] = state.sandboxes;
  if (newest === undefined) return { attempt: 0, why: 'the pod has no sandbox yet' };
  const why = newest.ready ? 'the sandbox has no address' : 'the sandbox is not ready any more';
  return { attempt: Math.max(...state.sandboxes.map((sandbox) => sandbox.attempt)) + 1, why };
}

interface Decision {
  readonly start?: ContainerStart;
  readonly kill?: ContainerKill;
  readonly wait?: ContainerWait;
  /** Ended, and the restart policy leaves it so. */
  readonly final?: ExitedState;
}

function decide(input: PlanInput, container: Container, usable: RuntimeSandbox | undefined): Decision {
  const { name } = container;
  const latest = latestOf(input.state, name);
  if (latest === undefined) return begin(input, { container, attempt: 0, crashes: 0, why: 'first start' });
  const changed = latest.hash !== containerHash(container);
  switch (latest.state.kind) {
    case 'running':
      if (latest.sandboxId !== usable?.id || !changed) return {};
      return { kill: { id: latest.id, name, why: 'its definition has changed' } };
    case 'unknown':
      // It may be alive: a second copy would be worse than waiting. The runtime goes on looking.
      return {
        wait: { name, reason: 'ContainerStatusUnknown', message: latest.state.message, retryInMs: LOOK_AGAIN_MS },
      };
    case 'created': {
      const again = { container, attempt: latest.attempt + 1, crashes: latest.crashes };
      if (latest.sandboxId !== usable?.id) return begin(input, { ...again, why: 'its sandbox was lost before it ran' });
      if (changed) return begin(input, { ...again, why: 'its definition has changed' });
      return begin(input, {
        container,
        attempt: latest.attempt,
        crashes: latest.crashes,
        createdId: latest.id,
        why: 'created before and not started',
      });
    }
    case 'exited':
      return decideExited(input, container, latest, latest.state);
  }
}

function decideExited(input: PlanInput, container: Container, latest: RuntimeContainer, exit: ExitedState): Decision {
  const policy = input.pod.spec.restartPolicy ?? 'Always';
  if (policy === 'Never' || (policy === 'OnFailure' && exit.exitCode === 0)) return { final: exit };
  const crashes = isOfEarlierBoot(input, latest) ? 0 : crashesBefore(latest, exit);
  const delayMs = backoffDelayMs(CRASH_BACKOFF, crashes);
  const leftMs = delayMs - (input.exitAgesMs.get(latest.id) ?? 0);
  if (leftMs > 0) {
    const message = `back-off ${String(delayMs / 1000)}s restarting failed container=${container.name} pod=${podKey(input.pod)} (${input.pod.uid})`;
    return { wait: { name: container.name, reason: 'CrashLoopBackOff', message, retryInMs: leftMs } };
  }
  return begin(input, {
    container,
    attempt: latest.attempt + 1,
    crashes: crashes + 1,
    why: `${isOfEarlierBoot(input, latest) ? 'the machine was restarted, ' : ''}restart policy ${policy}, exit code ${String(exit.exitCode)}${crashes === 0 ? '' : `, after ${String(delayMs / 1000)} s of back-off`}`,
  });
}

/** Whatever made it crash may have gone with the restart: nobody waits for minutes after that for what was before it. */
function isOfEarlierBoot({ bootId }: PlanInput, { bootId: madeIn }: RuntimeContainer): boolean {
  return madeIn !== '' && madeIn !== bootId;
}

function crashesBefore(latest: RuntimeContainer, exit: ExitedState): number {
  const ranMs = exit.startedAtMs === undefined ? 0 : exit.finishedAtMs - exit.startedAtMs;
  return ranMs >= CRASH_RESET_MS ? 0 : latest.crashes;
}

function begin(input: PlanInput, start: ContainerStart): Decision {
  const { name } = start.container;
  const failed = input.failedStarts.get(name);
  if (failed === undefined || failed.retryInMs <= 0) return { start };
  return { wait: { name, reason: failed.reason, message: failed.message, retryInMs: failed.retryInMs } };
}

function outcomeOf(pod: NodePod, state: PodRuntimeState, decisions: readonly Decision[]): PodOutcome | undefined {
  const phase = pod.object.status?.phase;
  const ended = phase === 'Succeeded' || phase === 'Failed';
  // What has been said to be over stays over, even if its containers are gone from the runtime by now.
  if (ended && !state.containers.some(mayBeAlive)) return phase;
  const finals = decisions.map((decision) => decision.final);
  if (finals.some((final) => final === undefined)) return undefined;
  return finals.every((final) => final?.exitCode === 0) ? 'Succeeded' : 'Failed';
}

/** Of each container's dead runs the last one is kept, for its logs and its `lastState`. */
function deadBeyondLast(state: PodRuntimeState): string[] {
  const remove: string[] = [];
  for (const container of state.containers) {
    const latest = latestOf(state, container.name);
    if (container.id === latest?.id) continue;
    if (container.state.kind === 'created') remove.push(container.id);
    if (hasExited(container) && container.id !== lastToKeep(state, container.name)?.id) remove.push(container.id);
  }
  return remove;
}

function lastToKeep(state: PodRuntimeState, name: string): RuntimeContainer | undefined {
  return lastExitedOf(state, name);
}

/** Not ready, kept for the dead containers in it, and not known to be stopped. */
function supersededSandboxes(
  { state, stopped }: PlanInput,
  stale: readonly RuntimeSandbox[],
  removeSandboxes: readonly string[],
): RuntimeSandbox[] {
  const newest = state.sandboxes[0]?.id;
  return stale.filter(({ id, ready }) => !ready && id !== newest && !stopped.has(id) && !removeSandboxes.includes(id));
}

/** A sandbox goes once it is stopped, superseded, and holds no container that is kept. */
function removableSandboxes(
  state: PodRuntimeState,
  stale: readonly RuntimeSandbox[],
  removeContainers: readonly string[],
): string[] {
  const newest = state.sandboxes[0]?.id;
  return stale
    .filter((sandbox) => !sandbox.ready && sandbox.id !== newest)
    .filter((sandbox) =>
      state.containers.every((one) => one.sandboxId !== sandbox.id || removeContainers.includes(one.id)),
    )
    .map((sandbox) => sandbox.id);
}
