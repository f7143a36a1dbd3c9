import type { Op } from '../lib/abort.ts';
import { failedPrecondition, invalidArgument, messageOf, notFound } from '../lib/errors.ts';
import { parseSignal } from '../linux/signals.ts';
import type { KubeClient } from '../kube/client.ts';
import type { StopOutcome, StopRequest } from '../kube/gantry-extensions.ts';
import type { RuntimeService } from '../cri/services.ts';
import { ContainerState, type Container, type PodSandbox } from '../cri/gen/api.ts';
import type { StopOrder } from '../runtime/container/stop-container.ts';

export interface StopDeps {
  readonly runtime: Pick<RuntimeService, 'listContainers' | 'listPodSandbox'>;
  readonly kube: KubeClient;
  stop(op: Op, order: StopOrder): Promise<void>;
}

const DEFAULT_GRACE_S = 30;

/** `gantry stop`: finds the one running container that the user means, and ends it. */
export async function stopByName(op: Op, deps: StopDeps, request: StopRequest): Promise<StopOutcome> {
  const signal = request.signal === undefined ? undefined : signalNumber(request.signal);
  const { containers } = await deps.runtime.listContainers(op, { filter: undefined });
  const { items } = await deps.runtime.listPodSandbox(op, { filter: undefined });
  const found = findContainer(containers, items, request);
  const pod = found.sandbox?.metadata;
  const graceS = request.timeoutSeconds ?? (await podGrace(op, deps.kube, pod?.namespace, pod?.name));
  await deps.stop(op, {
    id: found.container.id,
    graceMs: graceS * 1000,
    reason: "stopped by the user ('gantry stop')",
    ...(signal === undefined ? {} : { signal }),
  });
  return { containerId: found.container.id, pod: pod?.name ?? '', container: found.container.metadata?.name ?? '' };
}

function signalNumber(text: string): number {
  try {
    return parseSignal(text);
  } catch (error) {
    throw invalidArgument(messageOf(error), { cause: error });
  }
}

interface Found {
  readonly container: Container;
  readonly sandbox: PodSandbox | undefined;
}

/** By id or an unambiguous beginning of one, `POD/CONTAINER`, or a name that one container has; those that run come first. */
export function findContainer(
  containers: readonly Container[],
  sandboxes: readonly PodSandbox[],
  { container: wanted, namespace }: Pick<StopRequest, 'container' | 'namespace'>,
): Found {
  const all = containers.map((container) => ({
    container,
    sandbox: sandboxes.find((sandbox) => sandbox.id === container.podSandboxId),
  }));
  const [podName, containerName] = wanted.includes('/') ? wanted.split('/') : [undefined, wanted];
  const named = all.filter(
    ({ container, sandbox }) =>
      container.metadata?.name === containerName &&
      sandbox?.metadata?.namespace === namespace &&
      (podName === undefined || sandbox.metadata.name === podName),
  );
  const byId =
    podName === undefined && wanted !== '' ? all.filter(({ container }) => container.id.startsWith(wanted)) : [];
  const matches = named.length > 0 ? named : byId;
  const running = matches.filter(({ container }) => container.state === ContainerState.CONTAINER_RUNNING);
  const candidates = running.length > 0 ? running : matches.slice(-1);
  const [first, second] = candidates;
  if (first === undefined) throw notFound(`container "${wanted}" not found in namespace "${namespace}"`);
  if (second !== undefined) {
    const names = candidates.map(
      ({ container, sandbox }) => `${sandbox?.metadata?.name ?? ''}/${container.metadata?.name ?? ''}`,
    );
    throw failedPrecondition(`"${wanted}" means several containers: ${names.join(', ')}: say which one`);
  }
  return first;
}

async function podGrace(op: Op, kube: KubeClient, namespace?: string, name?: string): Promise<number> {
  if (namespace === undefined || name === undefined) return DEFAULT_GRACE_S;
  try {
    return (await kube.get(op, 'pods', { namespace, name })).spec.terminationGracePeriodSeconds ?? DEFAULT_GRACE_S;
  } catch {
    // A sandbox that no pod of ours has made.
    return DEFAULT_GRACE_S;
  }
}
