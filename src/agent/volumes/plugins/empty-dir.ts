import { chmod } from 'node:fs/promises';
import type { Op } from '../../../lib/abort.ts';
import { failedPrecondition } from '../../../lib/errors.ts';
import { mountsOn } from '../../../linux/mountinfo.ts';
import { hugePageOfMedium, isHugePagesMedium } from '../../../kube/huge-pages.ts';
import type { EmptyDirVolumeSource } from '../../../kube/objects.ts';
import { quantityToNumber } from '../../../kube/quantity.ts';
import type { NodePod } from '../../pods/node-pod.ts';
import { podHugePages, podMemoryLimitBytes } from '../../sync/resources.ts';
import type { SetUpRequest, VolumePlugin } from '../plugin.ts';
import { isOwn, makeVolumeDirectory, OWN_SOURCE, tearDownDirectory, type DirectoryDeps } from './directory-teardown.ts';

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
  const fileSystem = fileSystemOf(source, pod, deps);
  await makeVolumeDirectory(request, medium);
  if (fileSystem !== undefined) await mountOwn(op, deps, directory, fileSystem);
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

interface OwnFileSystem {
  readonly type: 'tmpfs' | 'hugetlbfs';
  readonly data: string;
}

/** Undefined: the directory's own. Throws FailedPrecondition for a medium that there is none of. */
function fileSystemOf(
  source: EmptyDirVolumeSource,
  pod: NodePod,
  deps: Pick<EmptyDirDeps, 'allocatableMemoryBytes'>,
): OwnFileSystem | undefined {
  const medium = source.medium ?? '';
  if (medium === '') return undefined;
  if (isHugePagesMedium(medium)) return hugePagesFileSystem(source, pod);
  if (medium !== 'Memory') throw failedPrecondition(`unknown storage medium ${JSON.stringify(medium)}`);
  return memoryFileSystem(memoryBytes(source, pod, deps));
}

export function memoryFileSystem(bytes: number): OwnFileSystem {
  return { type: 'tmpfs', data: `size=${String(Math.max(bytes, 4096))},mode=0777` };
}

/**
 * A medium that names no size is of the size that the pod asks for, which must be one (kubelet's rules). Pure. Throws FailedPrecondition,
 * also where the pod asks for no such pages: it could not use any.
 */
export function hugePagesFileSystem(source: EmptyDirVolumeSource, pod: NodePod): OwnFileSystem {
  const medium = source.medium ?? '';
  const asked = [...podHugePages(pod.spec).keys()];
  const named = hugePageOfMedium(medium);
  if (named === undefined && asked.length > 1) {
    throw failedPrecondition(
      `medium ${medium}: the pod asks for huge pages of several sizes: name one (HugePages-<size>)`,
    );
  }
  const pageBytes = named ?? asked[0];
  if (pageBytes === undefined || !asked.includes(pageBytes)) {
    throw failedPrecondition(`medium ${medium}: no container of the pod has such huge pages among its resources`);
  }
  const limit = source.sizeLimit === undefined ? 0 : quantityToNumber(source.sizeLimit);
  const size = limit > 0 ? `,size=${String(Math.max(1, Math.floor(limit / pageBytes)) * pageBytes)}` : '';
  return { type: 'hugetlbfs', data: `pagesize=${String(pageBytes)}${size},mode=0777` };
}

/** A file system of ours on the directory, exactly once. */
export async function mountOwn(
  op: Op,
  deps: DirectoryDeps,
  directory: string,
  { type, data }: OwnFileSystem,
): Promise<void> {
  const [present] = mountsOn(await deps.mountinfo(), directory);
  // Mounted before a crash or a restart of the agent: its content is the pod's, it must not be covered.
  if (present !== undefined && isOwn(present)) return;
  if (present !== undefined)
    throw failedPrecondition(`${directory}: ${present.fsType} of ${present.source} is mounted there`);
  await deps.mounts.mount(op, { source: OWN_SOURCE, target: directory, type, flags: ['nosuid', 'nodev'], data });
}
