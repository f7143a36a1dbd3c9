import type { Container, ContainerState, ContainerStatus, VolumeMountStatus } from '../../kube/objects.ts';
import { containerPath } from '../sync/container-config.ts';
import { rfc3339Seconds } from './kube-time.ts';
import {
  hasExited,
  lastExitedOf,
  latestOf,
  type ExitedState,
  type PodRuntimeState,
  type RuntimeContainer,
} from '../pleg/pod-runtime-state.ts';

/** Why a container does not run (now). */
export interface Waiting {
  readonly reason: string;
  readonly message?: string;
}

export interface ContainerStatusInput {
  readonly container: Container;
  readonly state: PodRuntimeState;
  readonly waiting: Waiting | undefined;
  /** What was last said about it. */
  readonly previous: ContainerStatus | undefined;
  /** `containerd`, `gantry` …: the scheme of container ids. */
  readonly runtimeName: string;
  /** Nothing is started any more: the pod is over or is ending. */
  readonly over: boolean;
  readonly readiness: boolean;
}

/** One container's part of the pod's status. Pure. */
export function containerStatus(input: ContainerStatusInput): ContainerStatus {
  const { container, state, previous, over } = input;
  const latest = latestOf(state, container.name);
  if (latest === undefined) return neverSeen(input);
  const id = `${input.runtimeName}://${latest.id}`;
  const before = lastExitedOf(state, container.name, latest);
  const base = {
    name: container.name,
    image: latest.image === '' ? (container.image ?? '') : latest.image,
    imageID: latest.imageId,
    containerID: id,
    // A container's record may be gone while its successors' count goes on.
    restartCount: Math.max(latest.attempt, previous?.restartCount ?? 0),
    ...volumeMountsOf(container, latest),
    ...userOf(latest),
  };
  const lastState = before === undefined ? {} : { terminated: terminated(before, before.state, input.runtimeName) };
  if (latest.state.kind === 'running') {
    return {
      ...base,
      state: { running: { startedAt: rfc3339Seconds(latest.state.startedAtMs) } },
      lastState,
      ready: input.readiness,
      started: true,
    };
  }
  if (hasExited(latest)) {
    const ended = terminated(latest, latest.state, input.runtimeName);
    const waits = !over && input.waiting !== undefined;
    return {
      ...base,
      state: waits ? waitingState(input.waiting) : { terminated: ended },
      lastState: waits ? { terminated: ended } : lastState,
      ready: false,
      started: false,
    };
  }
  return {
    ...base,
    state: waitingState(input.waiting ?? { reason: 'ContainerCreating' }),
    lastState,
    ready: false,
    started: false,
  };
}

/** What has come of each mount that was asked for. */
function volumeMountsOf({ volumeMounts = [] }: Container, { mounts }: RuntimeContainer): Partial<ContainerStatus> {
  const made = new Map(mounts.map((mount) => [mount.containerPath, mount]));
  const statuses = volumeMounts.flatMap(({ name, mountPath }): VolumeMountStatus[] => {
    const mount = made.get(containerPath(mountPath));
    if (mount === undefined) return [];
    const { readOnly, recursiveReadOnly, imageRef } = mount;
    return [
      {
        ...{ name, mountPath },
        ...(readOnly ? { readOnly, recursiveReadOnly: recursiveReadOnly ? 'Enabled' : 'Disabled' } : {}),
        ...(imageRef === undefined ? {} : { volumeStatus: { image: { imageRef } } }),
      },
    ];
  });
  return statuses.length === 0 ? {} : { volumeMounts: statuses };
}

function userOf({ user }: RuntimeContainer): Partial<ContainerStatus> {
  if (user === undefined) return {};
  const { uid, gid, supplementalGroups } = user;
  return { user: { linux: { uid, gid, supplementalGroups: [...supplementalGroups] } } };
}

/** No record of it: it has not been made yet, or the runtime has lost it. */
function neverSeen(input: ContainerStatusInput): ContainerStatus {
  const { container, previous, over } = input;
  const base = {
    name: container.name,
    image: container.image ?? '',
    imageID: previous?.imageID ?? '',
    restartCount: previous?.restartCount ?? 0,
    ready: false,
    started: false,
    lastState: previous?.lastState ?? {},
  };
  if (previous?.state?.terminated !== undefined) return { ...base, ...idOf(previous), state: previous.state };
  if (over && previous?.state?.running !== undefined) {
    // Nobody learnt how it ended: no code is made up, 255 with this reason is the wire's word for "unknown".
    const state: ContainerState = {
      terminated: {
        exitCode: 255,
        reason: 'ContainerStatusUnknown',
        message: 'the container was gone before its end was seen',
        startedAt: previous.state.running.startedAt,
      },
    };
    return { ...base, ...idOf(previous), state };
  }
  return { ...base, state: waitingState(input.waiting ?? { reason: 'ContainerCreating' }) };
}

function idOf(previous: ContainerStatus): { containerID?: string } {
  return previous.containerID === undefined ? {} : { containerID: previous.containerID };
}

function waitingState(waiting: Waiting | undefined): ContainerState {
  if (waiting === undefined) return {};
  const { reason, message = '' } = waiting;
  return { waiting: message === '' ? { reason } : { reason, message } };
}

function terminated(
  container: RuntimeContainer,
  exit: ExitedState,
  runtimeName: string,
): NonNullable<ContainerState['terminated']> {
  return {
    exitCode: exit.exitCode,
    reason: exit.reason,
    ...(exit.message === '' ? {} : { message: exit.message }),
    ...(exit.startedAtMs === undefined ? {} : { startedAt: rfc3339Seconds(exit.startedAtMs) }),
    finishedAt: rfc3339Seconds(exit.finishedAtMs),
    containerID: `${runtimeName}://${container.id}`,
  };
}
