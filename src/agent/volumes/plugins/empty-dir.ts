import { chmod } from 'node:fs/promises';
import type { Op } from '../../../lib/abort.ts';
import { failedPrecondition } from '../../../lib/errors.ts';
import { mountsOn } from '../../../linux/mountinfo.ts';
import type { EmptyDirVolumeSource } from '../../../kube/objects.ts';
import { quantityToNumber } from '../../../kube/quantity.ts';
import type { NodePod } from '../../pods/node-pod.ts';
import { podMemoryLimitBytes } from '../../sync/resources.ts';
import type { SetUpRequest, VolumePlugin } from '../plugin.ts';
import {
  isOwn,
  makeVolumeDirectory,
  OWN_TMPFS_SOURCE,
  tearDownDirectory,
  type DirectoryDeps,
} from './directory-teardown.ts';

export const EMPTY_DIR_PLUGIN = 'kubernetes.io/empty-dir';

export interface EmptyDirDeps extends DirectoryDeps {
  /** Bytes of memory that pods may use on this machine: the bound of a memory volume that names none. */
  readonly allocatableMemoryBytes: () => number;
}

/** A directory that lives as long as its pod, on disk or in memory (BEHAVIOUR.md D). */
export function emptyDirPlugin(deps: EmptyDirDeps): VolumePlugin {
  return {
    name: EMPTY_DIR_PLUGIN,
    refreshes: false,
    supports: (volume) => volume.emptyDir !== undefined,
    setUp: (op, request) => setUp(op, deps, request),
    tearDown: (op, request) => tearDownDirectory(op, deps, request),
  };
}

async function setUp(op: Op, deps: EmptyDirDeps, request: SetUpRequest): Promise<string> {
  const { directory, pod } = request;
  const source = request.volume.emptyDir ?? {};
  const medium = source.medium ?? '';
  if (medium !== '' && medium !== 'Memory')
    throw failedPrecondition(`unknown storage medium ${JSON.stringify(medium)}`);
  await makeVolumeDirectory(request, medium);
  if (medium === 'Memory') await mountMemory(op, deps, directory, memoryBytes(source, pod, deps));
  // mkdir's mode goes through the umask: everybody may write here, whichever user the containers run as.
  await chmod(directory, 0o777);
  return directory;
}

/** sizeLimit, and never more than the pod's memory limit or the machine's: without a size= it would be half of the RAM. */
export function memoryBytes(
  source: EmptyDirVolumeSource,
  pod: NodePod,
  deps: Pick<EmptyDirDeps, 'allocatableMemoryBytes'>,
): number {
  const bound = podMemoryLimitBytes(pod.spec) ?? deps.allocatableMemoryBytes();
  const asked = source.sizeLimit === undefined ? 0 : quantityToNumber(source.sizeLimit);
  return asked > 0 ? Math.min(asked, bound) : bound;
}

/** A memory file system of ours on the directory, exactly once. */
export async function mountMemory(op: Op, deps: DirectoryDeps, directory: string, bytes: number): Promise<void> {
  const [present] = mountsOn(await deps.mountinfo(), directory);
  // Mounted before a crash or a restart of the agent: its content is the pod's, it must not be covered.
  if (present !== undefined && isOwn(present)) return;
  if (present !== undefined)
    throw failedPrecondition(`${directory}: ${present.fsType} of ${present.source} is mounted there`);
  await deps.mounts.mount(op, {
    source: OWN_TMPFS_SOURCE,
    target: directory,
    type: 'tmpfs',
    flags: ['nosuid', 'nodev'],
    data: `size=${String(Math.max(bytes, 4096))},mode=0777`,
  });
}
