import type { Op } from '../../lib/abort.ts';
import { ListContainersRequest } from '../../cri/gen/api.ts';
import type { RuntimeService } from '../../cri/services.ts';
import type { Container, Lifecycle } from '../../kube/objects.ts';
import { ANNOTATION_POD_GRACE, ANNOTATION_PRE_STOP, LABEL_AGENT, LABEL_POD_UID } from '../pods/names.ts';
import { DEFAULT_GRACE_SECONDS, toNodePod, type NodePod } from '../pods/node-pod.ts';
import type { SnapshotPod } from '../pleg/relist.ts';

/**
 * A pod that runs here and that the API does not know (any more), rebuilt from what its containers carry: enough to end it
 * as it would have ended, with its hooks and its grace period (BEHAVIOUR.md 72, 74).
 */
export async function rebuildPod(
  op: Op,
  runtime: Pick<RuntimeService, 'listContainers'>,
  agentId: string,
  found: SnapshotPod,
): Promise<NodePod> {
  const labelSelector = { [LABEL_POD_UID]: found.uid, [LABEL_AGENT]: agentId };
  const { containers } = await runtime.listContainers(
    op,
    ListContainersRequest.fromPartial({ filter: { labelSelector } }),
  );
  const byName = new Map<string, Container>();
  let graceSeconds = DEFAULT_GRACE_SECONDS;
  for (const { metadata, annotations } of containers) {
    const name = metadata?.name ?? '';
    const grace = Number(annotations[ANNOTATION_POD_GRACE] ?? Number.NaN);
    if (Number.isFinite(grace) && grace >= 0) graceSeconds = grace;
    byName.set(name, { name, ...lifecycleOf(annotations[ANNOTATION_PRE_STOP]) });
  }
  return toNodePod({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      uid: found.uid,
      namespace: found.namespace,
      name: found.name,
      resourceVersion: '',
      creationTimestamp: '',
    },
    spec: { containers: [...byName.values()], terminationGracePeriodSeconds: graceSeconds },
  });
}

function lifecycleOf(annotation: string | undefined): { lifecycle?: Lifecycle } {
  if (annotation === undefined) return {};
  try {
    return { lifecycle: JSON.parse(annotation) as Lifecycle };
  } catch {
    // Not ours, or damaged: the container ends without a hook.
    return {};
  }
}
