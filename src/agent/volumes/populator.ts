import type { NodePod } from '../pods/node-pod.ts';
import { volumeKey, type DesiredState, type DesiredVolume } from './desired-state.ts';
import type { VolumePlugin } from './plugin.ts';

/** What the populator needs to know of a pod. */
export interface PodDemand {
  readonly pod: NodePod;
  /** False once the pod is over: then nothing of it runs any more and its volumes may go. */
  readonly wantsVolumes: boolean;
}

/**
 * Brings the desired state to what the pods say. A pod that is ending keeps its volumes until nothing of it runs
 * (FAILURES.md row 46): whoever answers `wantsVolumes` sees to that. Answers whether anything has changed.
 */
export function populate(
  desired: DesiredState,
  demands: readonly PodDemand[],
  plugins: readonly VolumePlugin[],
): boolean {
  let changed = false;
  const wanted = new Set<string>();
  for (const { pod, wantsVolumes } of demands) {
    if (!wantsVolumes) continue;
    wanted.add(pod.uid);
    if (desired.hasPod(pod.uid)) continue;
    desired.setPod(pod.uid, volumesOf(pod, plugins));
    changed = true;
  }
  for (const uid of desired.pods()) {
    if (wanted.has(uid)) continue;
    desired.deletePod(uid);
    changed = true;
  }
  return changed;
}

/** The volumes of a pod that some plug-in knows. A pod's volumes never change while it lives. */
export function volumesOf(pod: NodePod, plugins: readonly VolumePlugin[]): DesiredVolume[] {
  return (pod.spec.volumes ?? []).flatMap((volume) => {
    const plugin = plugins.find((candidate) => candidate.supports(volume));
    return plugin === undefined ? [] : [{ key: volumeKey(pod.uid, volume.name), pod, volume, plugin }];
  });
}
