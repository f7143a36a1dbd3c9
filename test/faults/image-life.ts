import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { op } from '../integration/runtime/runtime-fixture.ts';
import { imageOf, layerOf, type Image } from '../support/images.ts';
import type { FaultDaemon } from './fault-daemon.ts';

/** More than what progress is told in, so that there is a middle. */
const BIG_LAYER_BYTES = 4 << 20;

export async function twoLayerImage(): Promise<Image> {
  return imageOf([await layerOf('small'), await layerOf(randomBytes(BIG_LAYER_BYTES), 'none')]);
}

/** An image pulled, listed whole, and removed, each call repeated until it is answered. */
export async function liveImage(daemon: FaultDaemon, name: string, expected: Image): Promise<void> {
  const image = { image: name, imageRef: '', userSpecifiedImage: '', runtimeHandler: '', annotations: {} };
  const pulled = await daemon.ask((cri) =>
    cri.image.pullImage(op, { image, auth: undefined, sandboxConfig: undefined }),
  );
  assert.equal(pulled.imageRef, expected.id);
  const status = await daemon.ask((cri) => cri.image.imageStatus(op, { image, verbose: false }));
  assert.equal(status.image?.id, expected.id);
  assert.ok(status.image.size >= BigInt(BIG_LAYER_BYTES), 'all of its layers are known');
  const byId = { ...image, image: expected.id };
  await daemon.ask((cri) => cri.image.removeImage(op, { image: byId }));
  const { images } = await daemon.ask((cri) => cri.image.listImages(op, { filter: undefined }));
  assert.ok(!images.some(({ id }) => id === expected.id), 'the image is gone');
}
