import { rfc3339 } from '../../lib/clock.ts';
import type { PendingWork } from '../../kube/gantry-extensions.ts';
import type { PodPaths } from '../pods/paths.ts';
import { readPodIdentity } from './pod-directory.ts';
import type { BlockedVolume } from './volume-manager.ts';

/** A volume whose teardown something is in the way of, and whose it was. */
export interface PendingVolume extends BlockedVolume {
  readonly podNamespace?: string;
  readonly podName?: string;
}

/** With the names of their pods: of those that have a worker, and of those that are gone and have a folder. */
export async function withNames(
  blocked: readonly BlockedVolume[],
  pods: { podOf(podUid: string): { readonly namespace: string; readonly name: string } | undefined },
  paths: PodPaths,
): Promise<PendingVolume[]> {
  return await Promise.all(
    blocked.map(async (volume) => {
      const pod = pods.podOf(volume.podUid) ?? (await readPodIdentity(paths, volume.podUid));
      return pod === undefined ? volume : { ...volume, podNamespace: pod.namespace, podName: pod.name };
    }),
  );
}

export const TEARING_DOWN: PendingWork = { what: 'volumes', message: 'its volumes are being torn down' };

/** Those of one pod, for people. */
export function blockedWork(blocked: readonly BlockedVolume[], podUid: string): PendingWork[] {
  return blocked
    .filter((volume) => volume.podUid === podUid)
    .map(({ name, message, sinceWallMs, attempts }) => ({
      what: `volume ${name}`,
      message: `volume ${name}: its teardown is blocked: ${message}`,
      since: rfc3339(sinceWallMs),
      attempts,
    }));
}
