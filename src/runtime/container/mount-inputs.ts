import { MountPropagation, type ContainerConfig, type Mount } from '../../cri/gen/api.ts';
import { failedPrecondition, invalidArgument } from '../../lib/errors.ts';
import type { MountInput } from '../oci/container-spec-input.ts';
import type { OciFeatures } from '../oci/runtime-features.ts';

/** kubelet knows the failure by this word at the beginning. */
const RRO_UNSUPPORTED = 'RROUnsupported';

const PROPAGATIONS = {
  [MountPropagation.PROPAGATION_PRIVATE]: 'private',
  [MountPropagation.PROPAGATION_HOST_TO_CONTAINER]: 'rslave',
  [MountPropagation.PROPAGATION_BIDIRECTIONAL]: 'rshared',
} as const;

/**
 * CRI's mounts as the specification has them. `sources` are where they really come from, one for each; without them the mounts are only
 * checked. Pure. Throws InvalidArgument, FailedPrecondition for what the OCI runtime or the kernel cannot.
 */
export function mountInputs(
  { mounts }: Pick<ContainerConfig, 'mounts'>,
  features: OciFeatures,
  sources?: readonly string[],
): MountInput[] {
  return mounts.map((mount, i) => {
    checkRecursiveReadOnly(mount, features);
    return { ...mountInput(mount, sources?.[i]), ...mappingsOf(mount, features) };
  });
}

/** CRI: only together with `readonly`, and with no mounts that come and go with the host's. */
function checkRecursiveReadOnly(mount: Mount, { recursiveReadOnlyMounts }: OciFeatures): void {
  const { containerPath, recursiveReadOnly, readonly, propagation } = mount;
  if (!recursiveReadOnly) return;
  const what = `mount ${containerPath}: recursive_read_only`;
  if (!readonly) throw invalidArgument(`${what} needs readonly`);
  if (propagation !== MountPropagation.PROPAGATION_PRIVATE) throw invalidArgument(`${what} needs private propagation`);
  // An image volume has nothing mounted below it.
  if (recursiveReadOnlyMounts || mount.image !== undefined) return;
  throw failedPrecondition(`${RRO_UNSUPPORTED}: ${what}: the OCI runtime or the kernel has no such mounts`);
}

/** Whom the files belong to inside: kubelet asks for it for the volumes of a pod with a user namespace. */
function mappingsOf(
  { containerPath, image, uidMappings, gidMappings }: Mount,
  { userNamespaces }: OciFeatures,
): Pick<MountInput, 'idMappings'> {
  // kubelet gives them to every mount of a pod with a user namespace. The layers of an image are mapped already.
  if (uidMappings.length + gidMappings.length === 0 || image !== undefined) return {};
  const what = `mount ${containerPath}: id mappings`;
  if (uidMappings.length === 0 || gidMappings.length === 0)
    throw invalidArgument(`${what} of users and groups go together`);
  if (!userNamespaces) throw failedPrecondition(`${what}: the OCI runtime or the kernel has no such mounts`);
  return { idMappings: { uids: uidMappings, gids: gidMappings } };
}

function mountInput(mount: Mount, source: string | undefined): MountInput {
  const { containerPath, hostPath, propagation } = mount;
  if (containerPath === '') throw invalidArgument('a mount has no container_path');
  if (mount.image === undefined) {
    if (!hostPath.startsWith('/'))
      throw invalidArgument(`mount ${containerPath}: host_path "${hostPath}" is not absolute`);
    if (mount.imageSubPath !== '') throw invalidArgument(`mount ${containerPath}: image_sub_path without an image`);
  }
  // Where an image volume is mounted is only known once its container has an id and a place.
  const from = source ?? (mount.image === undefined ? hostPath : '/');
  return {
    containerPath,
    hostPath: from,
    readOnly: mount.readonly,
    ...(mount.recursiveReadOnly && mount.image === undefined ? { recursiveReadOnly: true } : {}),
    propagation: PROPAGATIONS[propagation],
  };
}
