import { dirname } from 'node:path';
import { MountPropagation, type Mount } from '../../cri/gen/api.ts';
import type { Op } from '../../lib/abort.ts';
import { errnoOf, failedPrecondition } from '../../lib/errors.ts';
import type { HostFiles } from '../../linux/host-files.ts';
import { mountOf, readMountinfo, type MountInfo } from '../../linux/mountinfo.ts';
import type { ContainerMeta } from '../store/container-record.ts';
import type { RuntimePaths } from '../store/paths.ts';
import { volumeSource } from './volume-source.ts';

interface Deps {
  readonly paths: RuntimePaths;
  readonly hostFiles: Pick<HostFiles, 'realpath' | 'mkdir'>;
}

/**
 * Where a container's mounts come from, one for each, links of the host followed. A folder of the host that is missing is made, as the
 * field's runtimes do. Throws FailedPrecondition for a link that leads to nothing, and for a propagation
 * that the source's own mount does not take part in.
 */
export async function mountSources(op: Op, deps: Deps, meta: ContainerMeta): Promise<string[]> {
  const { mounts } = meta.config;
  let volumes = 0;
  const sources: string[] = [];
  for (const mount of mounts) {
    const source =
      mount.image === undefined
        ? await hostPlace(op, deps.hostFiles, mount.hostPath)
        : await volumeSource(deps.paths, meta, volumes++);
    sources.push(source);
  }
  await checkPropagations(mounts.map((mount, i) => ({ mount, source: sources[i] ?? mount.hostPath })));
  return sources;
}

/**
 * Finds, before there is anything of the container, a propagation that cannot be given: nobody mends that by starting it again. Makes
 * nothing, so what is missing counts as on the mount that it would be made on. Throws as {@link mountSources}.
 */
export async function checkMountSources(
  op: Op,
  { hostFiles }: { readonly hostFiles: Pick<HostFiles, 'realpath'> },
  { config }: Pick<ContainerMeta, 'config'>,
): Promise<void> {
  const propagating = config.mounts.filter(propagates);
  const places = propagating.map(async (mount) => ({
    mount,
    source: await whatIsThere(op, hostFiles, mount.hostPath),
  }));
  await checkPropagations(await Promise.all(places));
}

async function hostPlace(op: Op, hostFiles: Deps['hostFiles'], path: string): Promise<string> {
  try {
    return await hostFiles.realpath(op, path);
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
    return await madeFolder(op, hostFiles, path);
  }
}

async function madeFolder(op: Op, hostFiles: Deps['hostFiles'], path: string): Promise<string> {
  try {
    await hostFiles.mkdir(op, path, 0o755);
    return await hostFiles.realpath(op, path);
  } catch (error) {
    // Something is there all the same, and it leads nowhere.
    if (!['EEXIST', 'ENOENT'].includes(errnoOf(error) ?? '')) throw error;
    throw failedPrecondition(`mount host_path ${path}: a link there leads to nothing`, { cause: error });
  }
}

/** The path, or the nearest of the folders above it that is there. */
async function whatIsThere(op: Op, hostFiles: Pick<HostFiles, 'realpath'>, path: string): Promise<string> {
  try {
    return await hostFiles.realpath(op, path);
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT' || path === '/') throw error;
    return await whatIsThere(op, hostFiles, dirname(path));
  }
}

function propagates({ image, propagation }: Mount): boolean {
  return image === undefined && propagation !== MountPropagation.PROPAGATION_PRIVATE;
}

async function checkPropagations(places: readonly { readonly mount: Mount; readonly source: string }[]): Promise<void> {
  const propagating = places.filter(({ mount }) => propagates(mount));
  if (propagating.length === 0) return;
  const infos = await readMountinfo();
  for (const { mount, source } of propagating) checkPropagation(infos, mount, source);
}

/** Of the mount that the source really is on: a link to it may lie on quite another one. */
function checkPropagation(infos: readonly MountInfo[], { hostPath, propagation }: Mount, source: string): void {
  const info = mountOf(infos, source);
  const shared = info?.shared !== undefined;
  const both = propagation === MountPropagation.PROPAGATION_BIDIRECTIONAL;
  if (shared || (!both && info?.master !== undefined)) return;
  const wanted = both ? 'shared' : 'shared or slave';
  throw failedPrecondition(`mount ${hostPath}: it is on ${info?.mountPoint ?? '/'}, which is not a ${wanted} mount`);
}
