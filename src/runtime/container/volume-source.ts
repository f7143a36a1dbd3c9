import { invalidArgument } from '../../lib/errors.ts';
import { placeInRoot } from '../oci/read-in-root.ts';
import type { ContainerMeta } from '../store/container-record.ts';
import type { RuntimePaths } from '../store/paths.ts';

/** kubelet knows a volume's failure from a container's by this word at the beginning. */
export const VOLUME_FAILED = 'ImageVolumeMountFailed';

/**
 * What is bound into the container: the n-th volume, or the place in it that is asked for. Links are followed as inside the image and
 * lead nowhere else; nothing there changes any more, as the mount has no way to write. Throws InvalidArgument when there is no such place.
 */
export async function volumeSource(
  paths: RuntimePaths,
  { id, facts }: Pick<ContainerMeta, 'id' | 'facts'>,
  n: number,
): Promise<string> {
  const root = paths.container(id).volume(n);
  const { subPath, containerPath, shown } = facts.imageVolumes?.[n] ?? {};
  if (subPath === undefined) return root;
  const place = await placeInRoot(root, subPath);
  if (place !== undefined) return place;
  throw invalidArgument(`${VOLUME_FAILED}: mount ${containerPath ?? ''}: image ${shown ?? ''} has no ${subPath}`);
}
