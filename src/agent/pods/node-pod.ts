import type { Pod, PodSpec } from '../../kube/objects.ts';
import type { PodUid } from '../../lib/ids.ts';

/** A pod object as the agent works with it: what decisions need is at hand and parsed once. */
export interface NodePod {
  readonly uid: PodUid;
  readonly namespace: string;
  readonly name: string;
  readonly spec: PodSpec;
  /** Present once somebody has asked for the pod's end. */
  readonly deletion?: PodDeletion;
  /** The object as the API gave it. */
  readonly object: Pod;
}

export interface PodDeletion {
  /** `metadata.deletionTimestamp`: when the pod is expected to be gone. Whole seconds. */
  readonly atWallMs: number;
  readonly graceSeconds: number;
}

/** Kubernetes' default of `terminationGracePeriodSeconds`. */
export const DEFAULT_GRACE_SECONDS = 30;

export function toNodePod(pod: Pod): NodePod {
  const { metadata, spec } = pod;
  const at = metadata.deletionTimestamp === undefined ? Number.NaN : Date.parse(metadata.deletionTimestamp);
  const base = { uid: metadata.uid as PodUid, namespace: metadata.namespace, name: metadata.name, spec, object: pod };
  if (Number.isNaN(at)) return base;
  const graceSeconds =
    metadata.deletionGracePeriodSeconds ?? spec.terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS;
  return { ...base, deletion: { atWallMs: at, graceSeconds } };
}

/** `namespace/name`, as people write it. */
export function podKey(pod: Pick<NodePod, 'namespace' | 'name'>): string {
  return `${pod.namespace}/${pod.name}`;
}
