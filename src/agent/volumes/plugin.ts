import type { Op } from '../../lib/abort.ts';
import type { Volume } from '../../kube/objects.ts';
import type { NodePod } from '../pods/node-pod.ts';

/** One kind of volume. Both verbs can be repeated at any time, also after a crash in the middle of them. */
export interface VolumePlugin {
  /** `kubernetes.io/empty-dir`: with `~` for `/` it is the folder that the kind's volumes lie in. */
  readonly name: string;
  /** Content that is looked at again now and then while the pod runs. */
  readonly refreshes: boolean;
  supports(volume: Volume): boolean;
  /** Makes the volume ready and answers its path on the host. */
  setUp(op: Op, request: SetUpRequest): Promise<string>;
  /** Undoes exactly what {@link setUp} made. Throws when that failed; `blocked` when something is in the way. */
  tearDown(op: Op, request: TearDownRequest): Promise<TeardownOutcome>;
}

export interface VolumePlace {
  /** {@link PodPaths.volume} */
  readonly directory: string;
  /** {@link PodPaths.volumeMeta} */
  readonly metaDirectory: string;
}

export interface SetUpRequest extends VolumePlace {
  readonly pod: NodePod;
  readonly volume: Volume;
}

export interface TearDownRequest extends VolumePlace {
  readonly podUid: string;
  readonly volumeName: string;
}

export type TeardownOutcome =
  { readonly kind: 'gone' } | { readonly kind: 'blocked'; readonly blockers: readonly TeardownBlocker[] };

/** What stands in the way of deleting a volume: the same words as `linux/safe-remove` has. */
export interface TeardownBlocker {
  readonly path: string;
  readonly reason: 'mount' | 'busy' | 'foreign-inode' | 'error';
  readonly source?: string;
  readonly fsType?: string;
  readonly holders?: readonly { readonly pid: number; readonly comm?: string }[];
  /** One line for people, with the path. */
  readonly message: string;
}

/** The part of `linux/safe-remove` that volumes need: the only thing that deletes a tree. */
export interface TreeRemover {
  remove(
    op: Op,
    request: { readonly root: string; readonly path: string; readonly expectedIno?: number },
  ): Promise<
    | { readonly kind: 'removed' | 'absent' }
    | { readonly kind: 'blocked'; readonly blockers: readonly TeardownBlocker[] }
  >;
}

/** For a person: which path, what is there, who holds it. */
export function describeBlockers(blockers: readonly TeardownBlocker[]): string {
  return blockers.map(({ message }) => message).join('; ');
}
