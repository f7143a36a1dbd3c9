import assert from 'node:assert/strict';
import { it } from 'node:test';
import { ImageSpec } from '../../../src/cri/gen/api.ts';
import { createImageService, userOf } from '../../../src/runtime/image/image-service.ts';
import { failsWith, Fixture } from './fixture.ts';
import { TestRegistry } from '../../support/registry.ts';
import { imageOf, layerOf } from '../../support/images.ts';

function spec(image: string): ImageSpec {
  return ImageSpec.fromPartial({ image });
}

it('serves images over CRI', async () => {
  await using fixture = await Fixture.open();
  await using registry = await TestRegistry.start();
  const image = imageOf([await layerOf('one')], { config: { User: 'www-data:www-data' } });
  registry.push('app', image, 'v1', 'v2');
  registry.auth = { scheme: 'basic', login: 'user:password', token: '' };
  const service = createImageService({ images: fixture.images });
  const { op } = fixture;
  const auth = {
    username: 'user',
    password: 'password',
    auth: '',
    serverAddress: '',
    identityToken: '',
    registryToken: '',
  };
  const name = `${registry.host}/app:v1`;
  const { imageRef } = await service.pullImage(op, { image: spec(name), auth, sandboxConfig: undefined });
  assert.equal(imageRef, image.id);
  for (const asked of [name, imageRef, imageRef.slice(7), `${registry.host}/app@${image.manifest.digest}`]) {
    const { image: found } = await service.imageStatus(op, { image: spec(asked), verbose: false });
    assert.equal(found?.id, image.id);
    assert.equal(found.username, 'www-data');
    assert.equal(found.uid, undefined);
    assert.ok(found.size > 0n);
  }
  const { info } = await service.imageStatus(op, { image: spec(name), verbose: true });
  const verbose = JSON.parse(info['info'] ?? '') as { imageSpec: { config: unknown } };
  assert.deepEqual(verbose.imageSpec.config, { User: 'www-data:www-data' });

  const missing = await service.imageStatus(op, { image: spec('no/such:image'), verbose: true });
  assert.equal(missing.image, undefined);
  assert.equal((await service.listImages(op, { filter: undefined })).images.length, 1);
  assert.equal((await service.listImages(op, { filter: { image: spec('') } })).images.length, 1);
  assert.equal((await service.listImages(op, { filter: { image: spec('other') } })).images.length, 0);
  const { imageFilesystems } = await service.imageFsInfo(op, {});
  assert.ok((imageFilesystems[0]?.usedBytes?.value ?? 0n) > 0n);
  assert.ok((imageFilesystems[0]?.timestamp ?? 0n) > 1_000_000_000_000_000_000n);

  await service.removeImage(op, { image: spec(imageRef) });
  await service.removeImage(op, { image: spec(imageRef) });
  assert.equal((await service.listImages(op, { filter: undefined })).images.length, 0);
  await assert.rejects(
    service.imageStatus(op, { image: undefined, verbose: false }),
    failsWith('InvalidArgument', /names no image/),
  );
});

it('removes an image with all its tags by one of them, in use or pinned or not', async () => {
  await using fixture = await Fixture.open();
  await using registry = await TestRegistry.start();
  const image = imageOf([await layerOf('one')]);
  registry.push('app', image, 'v1', 'v2');
  const names = [`${registry.host}/app:v1`, `${registry.host}/app:v2`];
  await fixture.reopen({ imageUser: () => 'container abc', pinned: names });
  const service = createImageService({ images: fixture.images });
  const { op } = fixture;
  for (const name of names) {
    await service.pullImage(op, { image: spec(name), auth: undefined, sandboxConfig: undefined });
  }
  const { images } = await service.listImages(op, { filter: undefined });
  assert.deepEqual(
    images.map(({ repoTags, pinned }) => ({ repoTags, pinned })),
    [{ repoTags: names, pinned: true }],
  );
  await service.removeImage(op, { image: spec(names[0] ?? '') });
  for (const name of [...names, image.id]) {
    assert.equal((await service.imageStatus(op, { image: spec(name), verbose: false })).image, undefined);
  }
});

it('streams what it lists, in messages of some, and none where there is none', async () => {
  await using fixture = await Fixture.open();
  const service = createImageService({ images: fixture.images });
  const streamed = async (): Promise<string[][]> => {
    const messages: string[][] = [];
    for await (const { images } of service.streamImages?.(fixture.op, { filter: undefined }) ?? [])
      messages.push(images.map(({ id }) => id));
    return messages;
  };
  assert.deepEqual(await streamed(), []);
  await using registry = await TestRegistry.start();
  const layer = await layerOf('one');
  for (let i = 0; i < 201; i++) {
    registry.push(`app${String(i)}`, imageOf([layer], { config: { Labels: { i: String(i) } } }), 'latest');
    await fixture.images.pull(fixture.op, `${registry.host}/app${String(i)}`);
  }
  const messages = await streamed();
  assert.deepEqual(
    messages.map(({ length }) => length),
    [200, 1],
  );
  const { images } = await service.listImages(fixture.op, { filter: undefined });
  assert.deepEqual(
    messages.flat(),
    images.map(({ id }) => id),
  );
  assert.equal(new Set(messages.flat()).size, 201);
});

it('pulls for the runtime handlers that there are', async () => {
  await using fixture = await Fixture.open();
  await using registry = await TestRegistry.start();
  const image = imageOf([await layerOf('one')]);
  registry.push('app', image, 'latest');
  const service = createImageService({ images: fixture.images, runtimeHandlers: () => ['runc'] });
  const pull = async (runtimeHandler: string): Promise<string> => {
    const asked = ImageSpec.fromPartial({ image: `${registry.host}/app`, runtimeHandler });
    return (await service.pullImage(fixture.op, { image: asked, auth: undefined, sandboxConfig: undefined })).imageRef;
  };
  assert.equal(await pull('runc'), image.id);
  assert.equal(await pull(''), image.id);
  await assert.rejects(pull('other'), failsWith('InvalidArgument', /no runtime handler "other"/));
});

it('reads users as CRI wants them', () => {
  assert.deepEqual(userOf(undefined), { uid: { value: 0n }, username: '' });
  assert.deepEqual(userOf('1003:1004'), { uid: { value: 1003n }, username: '' });
  assert.deepEqual(userOf('nobody'), { uid: undefined, username: 'nobody' });
});
