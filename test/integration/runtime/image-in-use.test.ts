import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { ContainerState, ImageSpec } from '../../../src/cri/gen/api.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { container, IMAGE, op, pod, RuntimeFixture } from './runtime-fixture.ts';

async function imagesListed(fixture: RuntimeFixture): Promise<number> {
  return (await fixture.runtime.image.listImages(op, { filter: undefined })).images.length;
}

async function imageBytes(fixture: RuntimeFixture): Promise<bigint> {
  const { imageFilesystems } = await fixture.runtime.image.imageFsInfo(op, {});
  return imageFilesystems[0]?.usedBytes?.value ?? 0n;
}

test(
  'an image that is removed under its containers: they run, start and are told of as before; its layers go with the last',
  { skip: process.getuid?.() !== 0 && 'needs root' },
  async () => {
    await using fixture = await RuntimeFixture.make();
    const leaks = await LeakCheck.begin(fixture.root.leakRoots());
    const config = pod(fixture.root, 'web');
    const sandboxId = await fixture.runSandbox(config);
    const running = await fixture.runContainer(sandboxId, config, container('running', ['sleep', '1000']));
    const created = await fixture.createContainer(sandboxId, config, container('created', ['sleep', '1000']));
    const before = await fixture.status(running);
    assert.ok((await imageBytes(fixture)) > 0n);

    await fixture.runtime.image.removeImage(op, { image: ImageSpec.fromPartial({ image: IMAGE }) });
    assert.equal(await imagesListed(fixture), 0);
    const { image } = await fixture.runtime.image.imageStatus(op, {
      image: ImageSpec.fromPartial({ image: before.imageId }),
      verbose: false,
    });
    assert.equal(image, undefined);
    await assert.rejects(fixture.createContainer(sandboxId, config, container('late', ['true'])), { kind: 'NotFound' });

    const after = await fixture.status(running);
    assert.deepEqual(
      [after.state, after.imageId, after.imageRef, after.image?.image],
      [ContainerState.CONTAINER_RUNNING, before.imageId, before.imageRef, before.image?.image],
    );
    assert.equal((await fixture.exec(running, 'echo', 'there')).stdout, 'there\n');
    await fixture.cri.startContainer(op, { containerId: created });
    assert.equal((await fixture.exec(created, 'cat', '/proc/1/comm')).stdout, 'sleep\n');

    // A daemon that comes later does not take them for garbage.
    await fixture.restart();
    await fixture.runtime.recovered;
    assert.equal((await fixture.exec(running, 'echo', 'still')).stdout, 'still\n');
    assert.ok((await imageBytes(fixture)) > 0n, 'what is on the disk is counted');

    await fixture.cri.removeContainer(op, { containerId: running });
    assert.equal((await fixture.exec(created, 'echo', 'one left')).stdout, 'one left\n');
    await fixture.stop(created, 0);
    await fixture.endPod(sandboxId);
    const endMs = performance.now() + 20_000;
    while ((await imageBytes(fixture)) > 0n && performance.now() < endMs) await systemClock.sleep(20);
    assert.equal(await imageBytes(fixture), 0n);
    // As it was before: the image as well.
    const rootfs = join(fixture.root.dir, 'rootfs');
    await fixture.runtime.images.import(op, { kind: 'rootfs', path: rootfs, name: IMAGE });
    await leaks.assertNone();
  },
);
