import type { Op } from '../../lib/abort.ts';
import { isKind } from '../../lib/errors.ts';
import type { RuntimeService } from '../../cri/services.ts';
import {
  ContainerState,
  ListContainersRequest,
  ListPodSandboxRequest,
  PodSandboxState,
  type ContainerStatus,
  type Mount,
  type PodSandboxStatus,
} from '../../cri/gen/api.ts';
import {
  ANNOTATION_BOOT,
  ANNOTATION_CRASHES,
  ANNOTATION_HASH,
  ANNOTATION_RESTART_COUNT,
  LABEL_AGENT,
  LABEL_POD_UID,
} from '../pods/names.ts';
import type {
  PodRuntimeState,
  RuntimeContainer,
  RuntimeContainerState,
  RuntimeMount,
  RuntimeSandbox,
} from './pod-runtime-state.ts';

export type StateReader = Pick<
  RuntimeService,
  'listPodSandbox' | 'podSandboxStatus' | 'listContainers' | 'containerStatus'
>;

/**
 * Everything the runtime knows of one pod of this agent's. An item that goes between list and status is left out; any other failure
 * throws: half an answer would look like containers that are gone.
 */
export async function readPodState(
  op: Op,
  runtime: StateReader,
  agentId: string,
  uid: string,
): Promise<PodRuntimeState> {
  const labelSelector = { [LABEL_POD_UID]: uid, [LABEL_AGENT]: agentId };
  const [sandboxes, containers] = await Promise.all([
    runtime.listPodSandbox(op, ListPodSandboxRequest.fromPartial({ filter: { labelSelector } })),
    runtime.listContainers(op, ListContainersRequest.fromPartial({ filter: { labelSelector } })),
  ]);
  const [sandboxStates, containerStates] = await Promise.all([
    Promise.all(
      sandboxes.items.map(async ({ id }) => {
        const answer = await ifThere(runtime.podSandboxStatus(op, { podSandboxId: id, verbose: false }));
        return answer?.status === undefined ? [] : [toSandbox(answer.status)];
      }),
    ),
    Promise.all(
      containers.containers.map(async ({ id, podSandboxId }) => {
        const answer = await ifThere(runtime.containerStatus(op, { containerId: id, verbose: false }));
        return answer?.status === undefined ? [] : [toContainer(answer.status, podSandboxId)];
      }),
    ),
  ]);
  return {
    uid,
    sandboxes: sandboxStates.flat().sort((a, b) => b.attempt - a.attempt || b.createdAtMs - a.createdAtMs),
    containers: containerStates.flat().sort((a, b) => b.attempt - a.attempt || b.createdAtMs - a.createdAtMs),
  };
}

async function ifThere<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (isKind(error, 'NotFound')) return undefined;
    throw error;
  }
}

function toSandbox(status: PodSandboxStatus): RuntimeSandbox {
  const network = status.network;
  const ips = [network?.ip ?? '', ...(network?.additionalIps ?? []).map(({ ip }) => ip)];
  return {
    id: status.id,
    attempt: status.metadata?.attempt ?? 0,
    ready: status.state === PodSandboxState.SANDBOX_READY,
    createdAtMs: nsToMs(status.createdAt),
    ips: ips.filter((ip) => ip !== ''),
  };
}

function toContainer(status: ContainerStatus, sandboxId: string): RuntimeContainer {
  const { annotations, metadata } = status;
  return {
    id: status.id,
    name: metadata?.name ?? '',
    sandboxId,
    attempt: metadata?.attempt ?? numberOf(annotations[ANNOTATION_RESTART_COUNT]),
    image: status.image?.userSpecifiedImage || (status.image?.image ?? ''),
    imageId: status.imageRef || status.imageId,
    hash: annotations[ANNOTATION_HASH] ?? '',
    crashes: numberOf(annotations[ANNOTATION_CRASHES]),
    bootId: annotations[ANNOTATION_BOOT] ?? '',
    createdAtMs: nsToMs(status.createdAt),
    mounts: status.mounts.map(toMount),
    ...toUser(status),
    state: toState(status),
  };
}

function toMount({ containerPath, readonly, recursiveReadOnly, image }: Mount): RuntimeMount {
  const imageRef = image?.imageRef || image?.image || undefined;
  return {
    ...{ containerPath, readOnly: readonly, recursiveReadOnly },
    ...(imageRef === undefined ? {} : { imageRef }),
  };
}

function toUser({ user }: ContainerStatus): Pick<RuntimeContainer, 'user'> {
  if (user?.linux === undefined) return {};
  const { uid, gid, supplementalGroups } = user.linux;
  return { user: { uid: Number(uid), gid: Number(gid), supplementalGroups: supplementalGroups.map(Number) } };
}

function toState(status: ContainerStatus): RuntimeContainerState {
  switch (status.state) {
    case ContainerState.CONTAINER_CREATED:
      return { kind: 'created' };
    case ContainerState.CONTAINER_RUNNING:
      return { kind: 'running', startedAtMs: nsToMs(status.startedAt) };
    case ContainerState.CONTAINER_EXITED:
      return {
        kind: 'exited',
        exitCode: status.exitCode,
        reason: status.reason || (status.exitCode === 0 ? 'Completed' : 'Error'),
        message: status.message,
        ...(status.startedAt > 0n ? { startedAtMs: nsToMs(status.startedAt) } : {}),
        finishedAtMs: nsToMs(status.finishedAt),
      };
    default:
      return { kind: 'unknown', reason: status.reason, message: status.message };
  }
}

function nsToMs(ns: bigint): number {
  return Number(ns / 1_000_000n);
}

function numberOf(text: string | undefined): number {
  const value = Number(text ?? 0);
  return Number.isInteger(value) && value >= 0 ? value : 0;
}
