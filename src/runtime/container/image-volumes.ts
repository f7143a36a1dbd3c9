import type { Mount } from '../../cri/gen/api.ts';
import type { Op } from '../../lib/abort.ts';
import { invalidArgument, notFound } from '../../lib/errors.ts';
import type { LedgerItem } from '../../lib/ledger.ts';
import type { RuntimeContext } from '../context.ts';
import type { ImageLookup } from '../parts.ts';
import type { ContainerMeta, ImageVolume } from '../store/container-record.ts';
import { containerOwner } from '../store/owners.ts';
import { volumeSnapshotId, type RuntimePaths } from '../store/paths.ts';
import { VOLUME_FAILED, volumeSource } from './volume-source.ts';
import { userNamespacePin } from './user-namespace-pin.ts';

/**
 * CRI's mounts with an image in them. Each becomes a snapshot of its own, mounted read-only beside the container's root file system and
 * bound into the container by the OCI runtime. The images are as they are now, whatever is pulled later. Throws InvalidArgument, NotFound
 * for an image that is not here.
 */
export function decideImageVolumes(images: ImageLookup, mounts: readonly Mount[]): ImageVolume[] {
  return mounts.flatMap(({ containerPath, hostPath, readonly, image, imageSubPath }) => {
    if (image === undefined) return [];
    if (hostPath !== '') throw invalidArgument(`mount ${containerPath}: it has a host_path and an image`);
    if (!readonly) throw invalidArgument(`mount ${containerPath}: an image can only be mounted readonly`);
    if (image.image === '') throw invalidArgument(`mount ${containerPath}: its image has no name`);
    const found = images.find(image.image);
    if (found === undefined) {
      throw notFound(`${VOLUME_FAILED}: mount ${containerPath}: image ${image.image} is not here: pull it first`);
    }
    return {
      containerPath,
      imageId: found.id,
      shown: image.userSpecifiedImage || image.image,
      diffIds: found.diffIds,
      ...(imageSubPath === '' ? {} : { subPath: imageSubPath }),
    };
  });
}

/** What their layers are held by, for as long as the container is not removed. */
export function volumeSnapshots({ id, facts }: Pick<ContainerMeta, 'id' | 'facts'>): LedgerItem[] {
  return (facts.imageVolumes ?? []).map((_volume, n) => {
    return { kind: 'snapshot', key: volumeSnapshotId(id, n), volatile: false };
  });
}

/** Mounts of image volumes are let go of as root file systems are. */
export function volumeMounts(paths: RuntimePaths, { id, facts }: Pick<ContainerMeta, 'id' | 'facts'>): LedgerItem[] {
  const places = paths.container(id);
  return (facts.imageVolumes ?? []).map((_volume, n) => ({ kind: 'rootfs', key: places.volume(n), volatile: true }));
}

type Deps = Pick<RuntimeContext, 'paths' | 'ledger' | 'snapshots' | 'folders' | 'faults' | 'sandboxes'>;

/**
 * The snapshots, and their mounts: a path that an image does not have is a mistake of who creates the container, and is told then. Throws
 * InvalidArgument for such a path.
 */
export async function makeImageVolumes(op: Op, rt: Deps, meta: ContainerMeta): Promise<void> {
  const volumes = meta.facts.imageVolumes ?? [];
  if (volumes.length === 0) return;
  const owner = containerOwner(meta.id);
  const { bundle } = rt.paths.container(meta.id);
  const folder: LedgerItem = { kind: 'bundle', key: bundle, data: { root: rt.paths.containers }, volatile: false };
  const snapshots = volumeSnapshots(meta);
  await rt.ledger.intend(owner, ...snapshots, folder, ...volumeMounts(rt.paths, meta));
  await rt.faults.reach('create-container/volumes-intended');
  for (const [n, { diffIds }] of volumes.entries())
    await rt.snapshots.prepare(op, volumeSnapshotId(meta.id, n), diffIds);
  await rt.faults.reach('create-container/volume-snapshots-made');
  await mountImageVolumes(op, rt, meta);
  await Promise.all(volumes.map((_volume, n) => volumeSource(rt.paths, meta, n)));
  for (const { kind, key } of [...snapshots, folder, ...volumeMounts(rt.paths, meta)]) {
    await rt.ledger.hold(owner, kind, key);
  }
  await rt.faults.reach('create-container/volumes-held');
}

/** What is mounted already stays. The ledger has been told. */
export async function mountImageVolumes(op: Op, rt: Omit<Deps, 'ledger'>, meta: ContainerMeta): Promise<void> {
  const mapped = userNamespacePin(rt, meta.facts.sandboxId);
  for (const [n] of (meta.facts.imageVolumes ?? []).entries()) {
    const target = rt.paths.container(meta.id).volume(n);
    await rt.folders.make(target, 0o711);
    await rt.faults.reach('mount-image-volume/folder-made');
    await rt.snapshots.mount(op, volumeSnapshotId(meta.id, n), target, { readOnly: true, ...mapped });
    await rt.faults.reach('mount-image-volume/mounted');
  }
}
