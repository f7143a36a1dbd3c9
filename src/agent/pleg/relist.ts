import type { Op } from '../../lib/abort.ts';
import { ListContainersRequest, ListPodSandboxRequest } from '../../cri/gen/api.ts';
import { ContainerState } from '../../cri/gen/api.ts';
import type { RuntimeService } from '../../cri/services.ts';
import { LABEL_AGENT, LABEL_POD_NAME, LABEL_POD_NAMESPACE, LABEL_POD_UID } from '../pods/names.ts';

/** One look at everything of ours in the runtime: enough to see what has changed, and for whom. */
export interface RuntimeSnapshot {
  readonly pods: ReadonlyMap<string, SnapshotPod>;
}

export interface SnapshotPod {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  /** Sandbox or container id to its state. */
  readonly states: ReadonlyMap<string, string>;
  /** Some process of the pod may be alive. */
  readonly alive: boolean;
}

export async function relist(
  op: Op,
  runtime: Pick<RuntimeService, 'listPodSandbox' | 'listContainers'>,
  agentId: string,
): Promise<RuntimeSnapshot> {
  const filter = { labelSelector: { [LABEL_AGENT]: agentId } };
  const [sandboxes, containers] = await Promise.all([
    runtime.listPodSandbox(op, ListPodSandboxRequest.fromPartial({ filter })),
    runtime.listContainers(op, ListContainersRequest.fromPartial({ filter })),
  ]);
  const pods = new Map<
    string,
    { -readonly [K in keyof SnapshotPod]: SnapshotPod[K] } & { states: Map<string, string> }
  >();
  const podOf = (labels: Readonly<Record<string, string>>): typeof pods extends Map<string, infer P> ? P : never => {
    const uid = labels[LABEL_POD_UID] ?? '';
    let pod = pods.get(uid);
    if (pod === undefined) {
      const namespace = labels[LABEL_POD_NAMESPACE] ?? '';
      pod = { uid, namespace, name: labels[LABEL_POD_NAME] ?? '', states: new Map(), alive: false };
      pods.set(uid, pod);
    }
    return pod;
  };
  for (const { id, state, labels } of sandboxes.items) podOf(labels).states.set(id, `sandbox ${String(state)}`);
  for (const { id, state, labels } of containers.containers) {
    const pod = podOf(labels);
    pod.states.set(id, `container ${String(state)}`);
    if (state === ContainerState.CONTAINER_RUNNING || state === ContainerState.CONTAINER_UNKNOWN) pod.alive = true;
  }
  return { pods };
}

/** The pods of which something has appeared, changed or gone between two looks. Pure. */
export function changedPods(before: RuntimeSnapshot | undefined, after: RuntimeSnapshot): string[] {
  const uids = new Set([...(before?.pods.keys() ?? []), ...after.pods.keys()]);
  return [...uids].filter((uid) => !sameStates(before?.pods.get(uid)?.states, after.pods.get(uid)?.states));
}

function sameStates(a: ReadonlyMap<string, string> | undefined, b: ReadonlyMap<string, string> | undefined): boolean {
  if (a?.size !== b?.size) return false;
  return [...(a ?? [])].every(([id, state]) => b?.get(id) === state);
}
