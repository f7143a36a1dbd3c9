import { MountPropagation, type ContainerConfig, type Mount } from '../../cri/gen/api.ts';
import { invalidArgument, notImplemented } from '../../lib/errors.ts';
import type { MountInput } from '../oci/container-spec-input.ts';

const PROPAGATIONS = {
  [MountPropagation.PROPAGATION_PRIVATE]: 'private',
  [MountPropagation.PROPAGATION_HOST_TO_CONTAINER]: 'rslave',
  [MountPropagation.PROPAGATION_BIDIRECTIONAL]: 'rshared',
} as const;

/**
 * CRI's mounts as the specification has them. `sources` are where they really come from, one for each; without them the mounts are only
 * checked. Pure. Throws InvalidArgument, NotImplemented.
 */
export function mountInputs({ mounts }: Pick<ContainerConfig, 'mounts'>, sources?: readonly string[]): MountInput[] {
  return mounts.map((mount, i) => mountInput(mount, sources?.[i]));
}

function mountInput(mount: Mount, source: string | undefined): MountInput {
  const { containerPath, hostPath, propagation } = mount;
  if (containerPath === '') throw invalidArgument('a mount has no container_path');
  if (mount.image === undefined) {
    if (!hostPath.startsWith('/'))
      throw invalidArgument(`mount ${containerPath}: host_path "${hostPath}" is not absolute`);
    if (mount.imageSubPath !== '') throw invalidArgument(`mount ${containerPath}: image_sub_path without an image`);
  }
  if (mount.recursiveReadOnly) {
    throw notImplemented(`mount ${containerPath}: recursive read-only mounts are not supported yet`);
  }
  if (mount.uidMappings.length + mount.gidMappings.length > 0) {
    throw notImplemented(`mount ${containerPath}: id-mapped mounts are not supported yet`);
  }
  // Where an image volume is mounted is only known once its container has an id and a place.
  const from = source ?? (mount.image === undefined ? hostPath : '/');
  return { containerPath, hostPath: from, readOnly: mount.readonly, propagation: PROPAGATIONS[propagation] };
}
