import type { Op } from '../lib/abort.ts';
import type { ImageImport } from '../lib/image-import.ts';
import type { ImageDetails, ImageProgress, ImagePullRequest, ImageSummary } from '../kube/gantry-extensions.ts';
import type { ImageStore } from '../runtime/image/image-store.ts';
import type { ImageRecord } from '../runtime/image/image-record.ts';
import type { LayerProgress } from '../runtime/image/progress.ts';
import { importImages } from '../runtime/inspector/import-request.ts';

export function imageSummary(image: ImageRecord): ImageSummary {
  return {
    id: image.id,
    tags: image.repoTags,
    digests: image.repoDigests,
    sizeBytes: image.sizeBytes,
    ...(image.pinned ? { pinned: true } : {}),
  };
}

/** `gantry image inspect` */
export function imageDetails(image: ImageRecord, configText: string | undefined): ImageDetails {
  return {
    ...imageSummary(image),
    storedAt: new Date(image.storedAtWallMs).toISOString(),
    ...(image.manifestDigest === undefined ? {} : { manifestDigest: image.manifestDigest }),
    layers: image.layers,
    config: configText === undefined ? {} : (JSON.parse(configText) as unknown),
  };
}

/** `gantry image pull` */
export function pullImage(op: Op, images: ImageStore, request: ImagePullRequest): AsyncIterable<ImageProgress> {
  const { reference, username, password } = request;
  const auth = username === undefined ? undefined : { username, password: password ?? '' };
  return withProgress(async (onProgress) => [await images.pull(op, reference, auth, onProgress)]);
}

/** `gantry image import` */
export function importImage(op: Op, images: ImageStore, request: ImageImport): AsyncIterable<ImageProgress> {
  return withProgress((onProgress) => importImages(op, images, request, onProgress));
}

/** Turns the callbacks of a transfer into a stream; a reader that is slow gets the latest state of each layer, not all of them. */
async function* withProgress(
  transfer: (onProgress: (event: LayerProgress) => void) => Promise<readonly ImageRecord[]>,
): AsyncGenerator<ImageProgress, void, undefined> {
  const latest = new Map<string, LayerProgress>();
  const state = { ended: false };
  let wake = Promise.withResolvers<undefined>();
  const work = transfer((event) => {
    latest.set(event.layer, event);
    wake.resolve(undefined);
  }).finally(() => {
    state.ended = true;
    wake.resolve(undefined);
  });
  // Its outcome is awaited below; until then a failure must not count as unhandled.
  work.catch(() => undefined);
  while (!state.ended || latest.size > 0) {
    await wake.promise;
    wake = Promise.withResolvers<undefined>();
    if (state.ended) wake.resolve(undefined);
    const events = [...latest.values()];
    latest.clear();
    for (const event of events) {
      yield {
        kind: 'progress',
        item: /^sha256:0+$/.test(event.layer) ? 'root filesystem' : event.layer,
        status: event.state,
        doneBytes: event.bytes,
        totalBytes: event.totalBytes,
      };
    }
  }
  for (const image of await work) yield { kind: 'done', image: imageSummary(image) };
}
