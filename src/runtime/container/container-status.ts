import {
  ContainerState as CriState,
  type ContainerStatus as CriStatus,
  type ContainerStatusRequest,
  type ContainerStatusResponse,
  type ContainerUser as CriUser,
  type ImageSpec,
  type Mount,
} from '../../cri/gen/api.ts';
import { toNanoseconds } from '../../cri/nanoseconds.ts';
import type { Op } from '../../lib/abort.ts';
import { notFound } from '../../lib/errors.ts';
import { perObject } from '../../lib/per-object.ts';
import type { RuntimeContext } from '../context.ts';
import type { ContainerRecord } from '../store/container-record.ts';
import { shownExit, shownReason } from './exit-reason.ts';
import { resourcesOf, shownResources } from './resources.ts';
import { taskOf, type ContainerStatus } from './state.ts';
import { criSignal } from './stop-signal.ts';

/** From memory, whatever the container's lane is busy with. Throws NotFound. */
export function containerStatus(
  _op: Op,
  rt: RuntimeContext,
  { containerId, verbose }: ContainerStatusRequest,
): Promise<ContainerStatusResponse> {
  const id = rt.containers.resolve(containerId);
  const record = id === undefined ? undefined : rt.containers.get(id);
  if (record === undefined || record.status.state.kind === 'creating') {
    return Promise.reject(notFound(`container ${containerId} not found`));
  }
  return Promise.resolve({ status: shownStatus(record), info: verbose ? verboseInfo(rt, record) : {} });
}

export function criState(status: ContainerStatus): CriState {
  switch (status.state.kind) {
    case 'creating':
    case 'created':
      return CriState.CONTAINER_CREATED;
    case 'running':
      return CriState.CONTAINER_RUNNING;
    case 'exited':
      return CriState.CONTAINER_EXITED;
    case 'unknown':
      return CriState.CONTAINER_UNKNOWN;
  }
}

/** The image as it was asked for, called by its tag where it has one. */
export function shownImage({ meta }: ContainerRecord): ImageSpec {
  return {
    image: meta.facts.image.shown,
    annotations: meta.config.image?.annotations ?? {},
    userSpecifiedImage: meta.config.image?.userSpecifiedImage ?? '',
    runtimeHandler: meta.config.image?.runtimeHandler ?? '',
    imageRef: '',
  };
}

/** CRI's picture of a container, of a record, which never changes: made once. */
export const shownStatus = perObject((record: ContainerRecord): CriStatus => {
  const { meta, status } = record;
  const { config, facts } = meta;
  const { state } = status;
  const exit = state.kind === 'exited' ? shownExit(state) : { exitCode: 0, ...shownReason(status) };
  return {
    id: meta.id,
    metadata: config.metadata,
    state: criState(status),
    createdAt: toNanoseconds(status.createdAtWallMs),
    startedAt: toNanoseconds(startedAtOf(status)),
    finishedAt: toNanoseconds(state.kind === 'exited' ? state.finishedAtWallMs : undefined),
    exitCode: exit.exitCode,
    image: shownImage(record),
    imageRef: facts.image.ref,
    imageId: facts.image.id,
    reason: exit.reason,
    message: exit.message,
    labels: config.labels,
    annotations: config.annotations,
    mounts: shownMounts(record),
    logPath: facts.logPath ?? '',
    resources:
      config.linux?.resources === undefined && status.resources === undefined
        ? undefined
        : { linux: shownResources(resourcesOf(record)), windows: undefined },
    user: shownUser(status),
    stopSignal: criSignal(facts.stopSignal),
  };
});

/** CRI: `image_ref` is the image that was mounted, by its id: a tag may be another's by now. */
function shownMounts({ meta: { config, facts } }: ContainerRecord): Mount[] {
  const ids = (facts.imageVolumes ?? []).map(({ imageId }) => imageId).values();
  return config.mounts.map((mount) =>
    mount.image === undefined ? mount : { ...mount, image: { ...mount.image, imageRef: ids.next().value ?? '' } },
  );
}

function startedAtOf({ state }: ContainerStatus): number | undefined {
  switch (state.kind) {
    case 'running':
    case 'exited':
      return state.startedAtWallMs;
    case 'unknown':
      return state.was.startedAtWallMs;
    case 'creating':
    case 'created':
      return undefined;
  }
}

function shownUser({ user }: ContainerStatus): CriUser | undefined {
  if (user === undefined) return undefined;
  const linux = {
    uid: BigInt(user.uid),
    gid: BigInt(user.gid),
    supplementalGroups: [...new Set([user.gid, ...user.additionalGids])].map(BigInt),
  };
  return { linux };
}

function verboseInfo(rt: RuntimeContext, { meta, status }: ContainerRecord): Record<string, string> {
  const info = {
    sandboxID: meta.facts.sandboxId,
    pid: taskOf(status)?.pid ?? 0,
    state: status.state,
    start: status.start,
    stop: status.stop,
    removing: status.removing,
    cleanupPending: rt.retries.viewOf(meta.id),
    lane: rt.lanes.view(meta.id),
    facts: meta.facts,
    config: meta.config,
  };
  return { info: JSON.stringify(info, (_key, value: unknown) => (typeof value === 'bigint' ? String(value) : value)) };
}
