import {
  NamespaceMode,
  PodSandboxState,
  type NamespaceOption,
  type PodSandboxStatus,
  type PodSandboxStatusRequest,
  type PodSandboxStatusResponse,
} from '../../cri/gen/api.ts';
import { toNanoseconds } from '../../cri/nanoseconds.ts';
import type { Op } from '../../lib/abort.ts';
import { notFound } from '../../lib/errors.ts';
import { perObject } from '../../lib/per-object.ts';
import { shownStatus as shownContainer } from '../container/container-status.ts';
import type { RuntimeContext } from '../context.ts';
import { containersOf } from '../events/container-events.ts';
import type { SandboxRecord } from '../store/sandbox-record.ts';
import { podResourcesOf } from './pod-limits.ts';
import { isReady } from './state.ts';

/** From memory. Throws NotFound. */
export function podSandboxStatus(
  _op: Op,
  rt: RuntimeContext,
  { podSandboxId, verbose }: PodSandboxStatusRequest,
): Promise<PodSandboxStatusResponse> {
  const id = rt.sandboxes.resolve(podSandboxId);
  const record = id === undefined ? undefined : rt.sandboxes.get(id);
  if (record === undefined || record.status.state.kind === 'starting') {
    return Promise.reject(notFound(`sandbox ${podSandboxId} not found`));
  }
  return Promise.resolve({
    status: shownStatus(record),
    info: verbose ? verboseInfo(rt, record) : {},
    // A kubelet that listens to container events takes these for all containers there are, as of `timestamp`.
    containersStatuses: containersOf(rt, record.meta.id).map(shownContainer),
    timestamp: toNanoseconds(rt.events.nowWallMs()),
  });
}

/** CRI's picture of a sandbox, of a record, which never changes: made once. */
export const shownStatus = perObject((record: SandboxRecord): PodSandboxStatus => {
  const { meta, status } = record;
  const [ip = '', ...others] = status.ips;
  return {
    id: meta.id,
    metadata: meta.config.metadata,
    state: criState(record),
    createdAt: toNanoseconds(status.createdAtWallMs),
    network: { ip, additionalIps: others.map((address) => ({ ip: address })) },
    linux: { namespaces: { options: namespaceOptionsOf(record) } },
    labels: meta.config.labels,
    annotations: meta.config.annotations,
    runtimeHandler: meta.facts.runtimeHandler,
  };
});

export function criState({ status }: SandboxRecord): PodSandboxState {
  return isReady(status) ? PodSandboxState.SANDBOX_READY : PodSandboxState.SANDBOX_NOTREADY;
}

function namespaceOptionsOf({ meta }: SandboxRecord): NamespaceOption {
  return (
    meta.config.linux?.securityContext?.namespaceOptions ?? {
      network: NamespaceMode.POD,
      pid: NamespaceMode.POD,
      ipc: NamespaceMode.POD,
      targetId: '',
      usernsOptions: undefined,
    }
  );
}

function verboseInfo(rt: RuntimeContext, record: SandboxRecord): Record<string, string> {
  const { meta, status } = record;
  const info = {
    state: status.state,
    pid: status.infra?.pid ?? 0,
    ...meta.facts,
    pins: status.pins,
    ips: status.ips,
    resources: podResourcesOf(record),
    stopping: status.stopping,
    removing: status.removing,
    pending: rt.retries.viewOf(meta.id),
    config: meta.config,
  };
  return { info: JSON.stringify(info, (_key, value: unknown) => (typeof value === 'bigint' ? String(value) : value)) };
}
