import type { Op } from '../../lib/abort.ts';
import { invalidArgument } from '../../lib/errors.ts';
import type { FilesystemUsage, Image, ImageFsInfoResponse, ImageSpec } from '../../cri/gen/api.ts';
import { toNanoseconds } from '../../cri/nanoseconds.ts';
import type { ImageService } from '../../cri/services.ts';
import type { ImageRecord } from './image-record.ts';
import type { ImageStore } from './image-store.ts';
import type { OnProgress } from './progress.ts';

interface Size {
  readonly bytes: number;
  readonly inodes: number;
}

export interface ImageServiceDeps {
  readonly images: ImageStore;
  /** Told of every pull's progress; the wire has no room for it. */
  readonly onProgress?: (reference: string) => OnProgress;
  /** What images and containers take on the disk; without it, what layers were said to take when they were unpacked. */
  readonly diskUse?: (op: Op) => Promise<{ readonly images: Size; readonly containers: Size }>;
}

/** CRI's image half over the image store. */
export function createImageService(deps: ImageServiceDeps): ImageService {
  const { images } = deps;
  return {
    listImages: (_op, request) => {
      const wanted = request.filter?.image?.image ?? '';
      if (wanted === '') return Promise.resolve({ images: images.list().map((record) => criImage(record)) });
      const found = images.resolve(wanted);
      return Promise.resolve({ images: found === undefined ? [] : [criImage(found)] });
    },

    // A missing image is an answer without an image, never an error (ImageStatusResponse.image).
    imageStatus: async (_op, request) => {
      const record = images.resolve(requireImage(request.image));
      if (record === undefined) return { image: undefined, info: {} };
      return { image: criImage(record), info: request.verbose ? await verboseInfo(images, record) : {} };
    },

    pullImage: async (op, request) => {
      const reference = requireImage(request.image);
      const record = await images.pull(op, reference, request.auth, deps.onProgress?.(reference));
      // Image.id, as callers compare it with ImageStatus (PullImageResponse.image_ref).
      return { imageRef: record.id };
    },

    // Idempotent: removing what is not there is a success (RemoveImage in the proto). One name takes them all, and neither a
    // container nor a pin is in the way (Image.pinned: the runtime must oblige).
    removeImage: async (op, request) => {
      await images.removeWhole(op, requireImage(request.image));
      return {};
    },

    imageFsInfo: async (op) => await fsInfo(op, deps),
  };
}

/** Both are on one file system: as in the field, all that is kept there is the images' use, and what containers have written is told beside it. */
async function fsInfo(op: Op, { images, diskUse }: ImageServiceDeps): Promise<ImageFsInfoResponse> {
  const recorded = images.fsInfo();
  const assumed = { bytes: recorded.usedBytes, inodes: recorded.inodesUsed };
  const use = (await diskUse?.(op)) ?? { images: assumed, containers: { bytes: 0, inodes: 0 } };
  const timestamp = toNanoseconds(recorded.takenAtWallMs);
  const usage = ({ bytes, inodes }: Size): FilesystemUsage => ({
    timestamp,
    fsId: { mountpoint: recorded.mountpoint },
    usedBytes: { value: BigInt(bytes) },
    inodesUsed: { value: BigInt(inodes) },
  });
  const both = { bytes: use.images.bytes + use.containers.bytes, inodes: use.images.inodes + use.containers.inodes };
  return { imageFilesystems: [usage(both)], containerFilesystems: [usage(use.containers)] };
}

function requireImage(spec: ImageSpec | undefined): string {
  const image = spec?.image ?? '';
  if (image === '') throw invalidArgument('the request names no image');
  return image;
}

/** An image on the wire. */
export function criImage(record: ImageRecord): Image {
  return {
    id: record.id,
    repoTags: [...record.repoTags],
    repoDigests: [...record.repoDigests],
    size: BigInt(record.sizeBytes),
    ...userOf(record.config.config.User),
    spec: undefined,
    pinned: record.pinned,
  };
}

/** The user part of `user:group` as a number where it is one, as a name otherwise: root is 0, not "no user" (Image.uid). */
export function userOf(user: string | undefined): Pick<Image, 'uid' | 'username'> {
  const name = (user ?? '').split(':')[0] ?? '';
  if (name === '') return { uid: { value: 0n }, username: '' };
  if (/^[0-9]{1,18}$/.test(name)) return { uid: { value: BigInt(name) }, username: '' };
  return { uid: undefined, username: name };
}

async function verboseInfo(images: ImageStore, record: ImageRecord): Promise<Record<string, string>> {
  const text = await images.configText(record.id);
  const info = {
    imageSpec: text === undefined ? {} : (JSON.parse(text) as unknown),
    manifestDigest: record.manifestDigest,
    layers: record.layers,
  };
  return { info: JSON.stringify(info) };
}
