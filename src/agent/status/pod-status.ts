import type { ContainerStatus, PodCondition, PodStatus } from '../../kube/objects.ts';
import type { NodePod } from '../pods/node-pod.ts';
import { mayBeAlive, type PodRuntimeState } from '../pleg/pod-runtime-state.ts';
import type { PodOutcome } from '../sync/compute-pod-actions.ts';
import { qosClass } from '../sync/resources.ts';
import type { Rejection } from '../sync/admit-pod.ts';
import { containerStatus, type Waiting } from './container-status.ts';
import { rfc3339Seconds } from './kube-time.ts';

export interface PodStatusInput {
  readonly pod: NodePod;
  readonly state: PodRuntimeState;
  readonly waiting: ReadonlyMap<string, Waiting>;
  readonly outcome?: PodOutcome;
  /** Why it was over before it began. */
  readonly rejection?: Rejection;
  /** Somebody has asked for the pod's end: nothing is started any more. */
  readonly ending: boolean;
  readonly hostIps: readonly string[];
  readonly runtimeName: string;
  readonly nowWallMs: number;
  /** What was last said about the pod. */
  readonly previous: PodStatus | undefined;
}

export type PodPhase = 'Pending' | 'Running' | 'Succeeded' | 'Failed';

/** What the API is told about a pod. Pure: the same input gives the same status, and times only move with a change. */
export function podStatus(input: PodStatusInput): PodStatus {
  const { pod, state, previous } = input;
  const over = input.ending || input.outcome !== undefined;
  const rejection = input.rejection ?? earlierRejection(input);
  const containers = rejection === undefined ? pod.spec.containers : [];
  const statuses = containers.map((container) =>
    containerStatus({
      container,
      state,
      over,
      waiting: input.waiting.get(container.name),
      previous: previous?.containerStatuses?.find(({ name }) => name === container.name),
      runtimeName: input.runtimeName,
      readiness: true,
    }),
  );
  const phase = phaseOf(input, statuses);
  const ips = podIps(input);
  return {
    phase,
    ...(rejection === undefined ? {} : { reason: rejection.reason, message: rejection.message }),
    conditions: conditions(input, phase, statuses),
    hostIP: input.hostIps[0] ?? '',
    hostIPs: input.hostIps.map((ip) => ({ ip })),
    ...(ips.length === 0 ? {} : { podIP: ips[0] ?? '', podIPs: ips.map((ip) => ({ ip })) }),
    startTime: previous?.startTime ?? rfc3339Seconds(input.nowWallMs),
    containerStatuses: statuses,
    qosClass: qosClass(pod.spec),
    ...(pod.object.metadata.generation === undefined ? {} : { observedGeneration: pod.object.metadata.generation }),
  };
}

/** What was said of a pod that never ran is said for as long as it is there. */
function earlierRejection({ previous, state }: PodStatusInput): Pick<PodStatus, 'reason' | 'message'> | undefined {
  if (previous?.phase !== 'Failed' || previous.reason === undefined || state.containers.length > 0) return undefined;
  return { reason: previous.reason, message: previous.message };
}

function podIps(input: PodStatusInput): readonly string[] {
  const { pod, state, previous, hostIps } = input;
  if (pod.spec.hostNetwork === true) return hostIps;
  const [newest] = state.sandboxes;
  if (newest?.ready === true && newest.ips.length > 0) return newest.ips;
  // A pod that is over keeps the address that it had, so that people can tell which one it was.
  return (previous?.podIPs ?? []).flatMap(({ ip }) => ip ?? []);
}

function phaseOf(input: PodStatusInput, statuses: readonly ContainerStatus[]): PodPhase {
  if (input.outcome !== undefined) return input.outcome;
  const started = statuses.some(({ state, lastState }) => state?.running ?? state?.terminated ?? lastState?.terminated);
  const alive = input.state.containers.some(mayBeAlive);
  if (input.ending && !alive && started) {
    return statuses.every(({ state }) => state?.terminated?.exitCode === 0) ? 'Succeeded' : 'Failed';
  }
  const neverRan = statuses.some(
    ({ state, lastState }) =>
      state?.running === undefined && state?.terminated === undefined && lastState?.terminated === undefined,
  );
  return neverRan ? 'Pending' : 'Running';
}

function conditions(input: PodStatusInput, phase: PodPhase, statuses: readonly ContainerStatus[]): PodCondition[] {
  const unready = statuses.filter(({ ready }) => !ready).map(({ name }) => name);
  const readiness = readinessCondition(phase, unready);
  const [sandbox] = input.state.sandboxes;
  const wanted: Omit<PodCondition, 'lastTransitionTime'>[] = [
    { type: 'PodReadyToStartContainers', status: sandbox?.ready === true ? 'True' : 'False' },
    { type: 'Initialized', status: 'True', ...(phase === 'Succeeded' ? { reason: 'PodCompleted' } : {}) },
    { type: 'Ready', ...readiness },
    { type: 'ContainersReady', ...readiness },
    { type: 'PodScheduled', status: 'True' },
  ];
  const others = (input.previous?.conditions ?? []).filter(({ type }) => wanted.every((one) => one.type !== type));
  return [...wanted.map((condition) => withTime(condition, input)), ...others];
}

function readinessCondition(
  phase: PodPhase,
  unready: readonly string[],
): { status: string; reason?: string; message?: string } {
  if (phase === 'Succeeded') return { status: 'False', reason: 'PodCompleted' };
  if (phase === 'Failed') return { status: 'False', reason: 'PodFailed' };
  if (unready.length === 0) return { status: 'True' };
  return {
    status: 'False',
    reason: 'ContainersNotReady',
    message: `containers with unready status: [${unready.join(' ')}]`,
  };
}

function withTime(condition: Omit<PodCondition, 'lastTransitionTime'>, input: PodStatusInput): PodCondition {
  const before = input.previous?.conditions?.find(({ type }) => type === condition.type);
  const unchanged = before?.status === condition.status && before.lastTransitionTime !== undefined;
  return {
    ...condition,
    lastTransitionTime: unchanged ? before.lastTransitionTime : rfc3339Seconds(input.nowWallMs),
  };
}

/** Whether two statuses say the same: key order and absent fields do not count. */
export function sameStatus(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const left = a as Record<string, unknown>;
  const right = b as Record<string, unknown>;
  const keys = new Set([...Object.keys(left), ...Object.keys(right)]);
  return [...keys].every((key) => sameStatus(left[key], right[key]));
}
