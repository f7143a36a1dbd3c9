import type { Op } from '../../../lib/abort.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { HangSafe } from '../../../linux/hang-safe.ts';
import { HostFiles } from '../../../linux/host-files.ts';
import { readMountinfo } from '../../../linux/mountinfo.ts';
import { Mounts } from '../../../linux/mounts.ts';
import type { KubeClient } from '../../../kube/client.ts';
import type { PodPaths } from '../../pods/paths.ts';
import type { Reference } from '../../sync/env.ts';
import { readReferences } from '../../sync/read-references.ts';
import type { TreeRemover, VolumePlugin } from '../plugin.ts';
import { configMapPlugin } from './config-map.ts';
import type { VolumeMounts } from './directory-teardown.ts';
import { emptyDirPlugin } from './empty-dir.ts';
import { hostPathPlugin } from './host-path.ts';
import { secretPlugin } from './secret.ts';

export interface StandardPluginDeps {
  readonly paths: PodPaths;
  readonly clock: Clock;
  readonly kube: Pick<KubeClient, 'get'>;
  readonly remover: TreeRemover;
  /** For what may hang; whoever made it closes it. */
  readonly hangSafe: HangSafe;
  readonly memoryBytes: number;
  readonly mounts?: VolumeMounts;
}

/** Every kind of volume that there is. */
export function standardPlugins(deps: StandardPluginDeps): VolumePlugin[] {
  const { clock, kube, paths, hangSafe } = deps;
  const directory = {
    podsDir: paths.podsDir,
    mounts: deps.mounts ?? new Mounts({ clock, hangSafe }),
    mountinfo: () => readMountinfo(),
    remover: deps.remover,
  };
  const keys = {
    ...directory,
    clock,
    read: async (op: Op, namespace: string, reference: Reference) =>
      (await readReferences(op, kube, namespace, [reference])).data(reference),
  };
  return [
    emptyDirPlugin({ ...directory, allocatableMemoryBytes: () => deps.memoryBytes }),
    configMapPlugin(keys),
    secretPlugin(keys),
    hostPathPlugin(new HostFiles(hangSafe)),
  ];
}
