import type { Op } from '../../lib/abort.ts';
import { invalidArgument } from '../../lib/errors.ts';
import type { FilesystemUsage, Image, ImageFilter, ImageFsInfoResponse, ImageSpec } from '../../cri/gen/api.ts';
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
  /** Names of the runtime handlers that there are, beside the default one (ImageSpec.runtime_handler). */
  readonly runtimeHandlers?: () => readonly string[];
  /** Told of every pull's progress; the wire has no room for it. */
  readonly onProgress?: (reference: string) => OnProgress;
  /** What images and containers take on the disk; without it, what layers were said to take when they were unpacked. */
  readonly diskUse?: (op: Op) => Promise<{ readonly images: Size; readonly containers: Size }>;
}

/** CRI's image half over the image store. */
export function createImageService(deps: ImageServiceDeps): ImageService {
  const { images } = deps;
  return {
    listImages: (_op, request) => Promise.resolve({ images: listed(images, request.filter) }),

    streamImages: async function* (op, request) {
      for (const batch of batches(listed(images, request.filter))) {
        if (op.signal.aborted) return;
        yield await Promise.resolve({ images: batch });
      }
    },

    // A missing image is an answer without an image, never an error (ImageStatusResponse.image).
    imageStatus: async (_op, request) => {
      const record = images.resolve(requireImage(request.image));
      if (record === undefined) return { image: undefined, info: {} };
      return { image: criImage(record), info: request.verbose ? await verboseInfo(images, record) : {} };
    },

    pullImage: async (op, request) => {
      const reference = requireImage(request.image);
      requireHandler(deps.runtimeHandlers?.() ?? [], request.image?.runtimeHandler ?? '');
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

/** A message of the stream stays far below the 16 MB that a client takes, whatever names the images have. */
const IMAGES_PER_MESSAGE = 200;

function* batches(images: readonly Image[]): Generator<Image[]> {
  for (let from = 0; from < images.length; from += IMAGES_PER_MESSAGE)
    yield images.slice(from, from + IMAGES_PER_MESSAGE);
}

function listed(images: ImageStore, filter: ImageFilter | undefined): Image[] {
  const wanted = filter?.image?.image ?? '';
  if (wanted === '') return images.list().map((record) => criImage(record));
  const found = images.resolve(wanted);
  return found === undefined ? [] : [criImage(found)];
}

function requireHandler(known: readonly string[], handler: string): void {
  if (handler !== '' && !known.includes(handler)) {
    throw invalidArgument(`no runtime handler ${JSON.stringify(handler)} is configured`);
  }
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
