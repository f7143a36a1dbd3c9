import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { failsWith, Fixture } from './fixture.ts';
import { TestRegistry } from '../../support/registry.ts';
import { imageOf, layerOf, type Image } from '../../support/images.ts';

async function pulled(
  fixture: Fixture,
  registry: TestRegistry,
  images: Readonly<Record<string, Image>>,
): Promise<void> {
  for (const [name, image] of Object.entries(images)) {
    const [repository = '', tag = 'latest'] = name.split(':');
    registry.push(repository, image, tag);
    await fixture.images.pull(fixture.op, `${registry.host}/${name}`);
  }
}

describe('remove', () => {
  it('takes a tag away, and the image with its last one; layers in use elsewhere stay', async () => {
    await using fixture = await Fixture.open();
    await using registry = await TestRegistry.start();
    const [base, top] = [await layerOf('base'), await layerOf('top')];
    const [one, two] = [imageOf([base, top]), imageOf([base])];
    await pulled(fixture, registry, { 'app:1': one, 'app:2': one, 'other:1': two });
    const { images, op } = fixture;
    assert.equal((await images.remove(op, `${registry.host}/app:1`)).kind, 'untagged');
    assert.deepEqual(images.resolve(one.id)?.repoTags, [`${registry.host}/app:2`]);
    assert.equal(images.resolve(one.id)?.repoDigests.length, 1);
    const removed = await images.remove(op, `${registry.host}/app:2`);
    assert.equal(removed.kind, 'removed');
    assert.equal(images.resolve(one.id), undefined);
    assert.ok(fixture.layers.has(base.diffId));
    assert.ok(!fixture.layers.has(top.diffId));
    assert.deepEqual(await images.remove(op, `${registry.host}/app:2`), { kind: 'absent' });
    await images.remove(op, two.id);
    assert.deepEqual([...fixture.layers.layers.keys()], []);
    assert.equal(images.fsInfo().usedBytes, 0);
    await fixture.reopen();
    assert.deepEqual(fixture.images.list(), []);
  });

  it('by id takes all names; by digest that name', async () => {
    await using fixture = await Fixture.open();
    await using registry = await TestRegistry.start();
    const image = imageOf([await layerOf('one')]);
    await pulled(fixture, registry, { 'app:1': image, 'other:2': image });
    const { images, op } = fixture;
    const untagged = await images.remove(op, `${registry.host}/app@${image.manifest.digest}`);
    assert.equal(untagged.kind, 'untagged');
    assert.equal(images.resolve(image.id)?.repoTags.length, 2);
    const removed = await images.remove(op, image.id.slice('sha256:'.length));
    assert.equal(removed.kind === 'removed' && removed.names.length, 3);
    assert.deepEqual(images.list(), []);
  });

  it('an image that was pulled by digest only goes with the digest', async () => {
    await using fixture = await Fixture.open();
    await using registry = await TestRegistry.start();
    const image = imageOf([await layerOf('one')]);
    registry.push('app', image);
    const name = `${registry.host}/app@${image.manifest.digest}`;
    const record = await fixture.images.pull(fixture.op, name);
    assert.deepEqual([record.repoTags, record.repoDigests], [[], [name]]);
    assert.equal((await fixture.images.remove(fixture.op, name)).kind, 'removed');
  });

  it('refuses an image that is in use, but takes a tag of it', async () => {
    await using fixture = await Fixture.open();
    await using registry = await TestRegistry.start();
    const image = imageOf([await layerOf('one')]);
    await fixture.reopen({ imageUser: (id) => (id === image.id ? 'container abc' : undefined) });
    await pulled(fixture, registry, { 'app:1': image, 'app:2': image });
    const { images, op } = fixture;
    assert.equal((await images.remove(op, `${registry.host}/app:1`)).kind, 'untagged');
    for (const name of [`${registry.host}/app:2`, image.id]) {
      await assert.rejects(images.remove(op, name), failsWith('FailedPrecondition', /in use by container abc/));
    }
    assert.equal(images.list().length, 1);
    assert.equal((await images.remove(op, image.id, { evenInUse: true })).kind, 'removed');
    assert.deepEqual(images.list(), []);
  });

  it('as a whole takes all names by any of them, and leaves the layers that are held until they are let go of', async () => {
    await using fixture = await Fixture.open();
    await using registry = await TestRegistry.start();
    const [base, top] = [await layerOf('base'), await layerOf('top')];
    const image = imageOf([base, top]);
    await fixture.reopen({ imageUser: () => 'container abc' });
    await pulled(fixture, registry, { 'app:1': image, 'other:2': image });
    const { images, layers, op } = fixture;
    layers.held.add(base.diffId);
    const removed = await images.removeWhole(op, `${registry.host}/app:1`);
    assert.equal(removed.kind === 'removed' && removed.names.length, 4);
    assert.deepEqual(images.list(), []);
    assert.deepEqual([...layers.layers.keys()], [base.diffId]);
    assert.ok(images.fsInfo().usedBytes > 0, 'it takes its space all the same');
    assert.deepEqual(images.unusedLayers(), [], 'and is no finding of the doctor');
    // A restart changes nothing of that.
    await fixture.reopen();
    await fixture.images.sweep(op);
    assert.ok(layers.has(base.diffId));

    // Pulled again before the container is gone: what is there is not fetched again, and stays.
    await fixture.images.pull(op, `${registry.host}/app:1`);
    assert.equal(registry.count(base.digest), 1);
    layers.held.clear();
    await fixture.images.sweepReleased(op, [base.diffId]);
    assert.ok(layers.has(base.diffId));

    layers.held.add(base.diffId);
    await fixture.images.removeWhole(op, image.id);
    layers.held.clear();
    await fixture.images.sweepReleased(op, [base.diffId]);
    assert.deepEqual([...layers.layers.keys()], []);
    assert.equal(fixture.images.fsInfo().usedBytes, 0);
  });

  it('takes its layers away also when the caller leaves meanwhile', async () => {
    await using fixture = await Fixture.open();
    await using registry = await TestRegistry.start();
    const image = imageOf([await layerOf('one'), await layerOf('two')]);
    await pulled(fixture, registry, { 'app:1': image });
    const { images, layers, op } = fixture;
    const held = Promise.withResolvers<undefined>();
    const reached = Promise.withResolvers<undefined>();
    layers.gate = () => {
      reached.resolve(undefined);
      return held.promise;
    };
    const caller = new AbortController();
    const removal = images.removeWhole({ ...op, signal: caller.signal }, image.id);
    await reached.promise;
    caller.abort(new Error('left'));
    await assert.rejects(removal, /left/);
    assert.deepEqual(await images.removeWhole(op, image.id), { kind: 'absent' });
    held.resolve(undefined);
    while (layers.layers.size > 0) await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(images.unusedLayers(), []);
  });

  it('waits for no pull, and takes no layer from one', async () => {
    await using fixture = await Fixture.open();
    await using registry = await TestRegistry.start();
    const base = await layerOf('base');
    const [one, two] = [imageOf([base]), imageOf([base, await layerOf('top')])];
    await pulled(fixture, registry, { 'one:latest': one });
    registry.push('two', two, 'latest');
    const held = Promise.withResolvers<undefined>();
    const reached = Promise.withResolvers<undefined>();
    fixture.layers.gate = () => {
      reached.resolve(undefined);
      return held.promise;
    };
    const pull = fixture.images.pull(fixture.op, `${registry.host}/two`);
    await reached.promise;
    // The pull has found the base here: it must not vanish under it.
    await fixture.images.remove(fixture.op, one.id);
    held.resolve(undefined);
    await pull;
    assert.ok(fixture.layers.has(base.diffId));
  });

  it('a pull that wants a layer being removed gets it anew', async () => {
    await using fixture = await Fixture.open();
    await using registry = await TestRegistry.start();
    const base = await layerOf('base');
    const [one, two] = [imageOf([base]), imageOf([base, await layerOf('top')])];
    await pulled(fixture, registry, { 'one:latest': one });
    registry.push('two', two, 'latest');
    const held = Promise.withResolvers<undefined>();
    const reached = Promise.withResolvers<undefined>();
    fixture.layers.gate = () => {
      reached.resolve(undefined);
      return held.promise;
    };
    const removal = fixture.images.remove(fixture.op, one.id);
    await reached.promise;
    const pull = fixture.images.pull(fixture.op, `${registry.host}/two`);
    held.resolve(undefined);
    await removal;
    await pull;
    assert.ok(fixture.layers.has(base.diffId));
    assert.equal(registry.count(base.digest), 2);
  });
});

describe('after a restart', () => {
  it('images, names and sizes are as before', async () => {
    await using fixture = await Fixture.open({ pinned: ['127.0.0.1/none'] });
    await using registry = await TestRegistry.start();
    const image = imageOf([await layerOf('one'), await layerOf('two')], { config: { Cmd: ['/x'] } });
    await pulled(fixture, registry, { 'app:1': image, 'app:2': image });
    const before = fixture.images.list();
    const usage = fixture.images.fsInfo();
    await fixture.reopen({ pinned: [`${registry.host}/app:2`] });
    assert.deepEqual(
      fixture.images.list(),
      before.map((record) => ({ ...record, pinned: true })),
    );
    assert.equal(fixture.images.fsInfo().usedBytes, usage.usedBytes);
    // What is known to be here is not fetched again.
    await fixture.images.pull(fixture.op, `${registry.host}/app:1`);
    for (const layer of image.layers) assert.equal(registry.count(layer.digest), 1);
  });

  it('an image without all of its layers is not listed, and a pull makes it whole', async () => {
    await using fixture = await Fixture.open();
    await using registry = await TestRegistry.start();
    const [one, two] = [await layerOf('one'), await layerOf('two')];
    const image = imageOf([one, two]);
    await pulled(fixture, registry, { 'app:1': image });
    fixture.layers.layers.delete(one.diffId);
    await fixture.reopen();
    assert.deepEqual(fixture.images.list(), []);
    assert.equal(fixture.images.resolve(`${registry.host}/app:1`), undefined);
    assert.ok(fixture.logged.some((line) => line.includes('lacks layers') && line.includes(one.diffId)));
    await fixture.images.pull(fixture.op, `${registry.host}/app:1`);
    assert.equal(registry.count(two.digest), 1);
    assert.equal(fixture.images.list().length, 1);
    await fixture.images.sweep(fixture.op);
    assert.equal(fixture.images.list().length, 1);
  });

  it('sweep removes what nobody refers to, but nothing that a container holds', async () => {
    await using fixture = await Fixture.open();
    await using registry = await TestRegistry.start();
    const [one, two] = [await layerOf('one'), await layerOf('two')];
    const image = imageOf([one, two]);
    await pulled(fixture, registry, { 'app:1': image });
    fixture.layers.layers.delete(one.diffId);
    const orphan = `sha256:${'1'.repeat(64)}`;
    fixture.layers.layers.set(orphan, { diffId: orphan, sizeBytes: 1 });
    fixture.layers.held.add(two.diffId);
    await fixture.reopen();
    assert.ok(fixture.layers.has(orphan));
    await fixture.images.sweep(fixture.op);
    assert.ok(!fixture.layers.has(orphan));
    assert.ok(fixture.layers.has(two.diffId));
    fixture.layers.held.clear();
    await fixture.reopen();
    await fixture.images.sweep(fixture.op);
    assert.deepEqual([...fixture.layers.layers.keys()], []);
    fixture.logged.length = 0;
    await fixture.reopen();
    assert.deepEqual(fixture.logged, []);
  });
});

it('tag gives another name and takes it from who had it', async () => {
  await using fixture = await Fixture.open();
  await using registry = await TestRegistry.start();
  const [one, two] = [imageOf([await layerOf('one')]), imageOf([await layerOf('two')])];
  await pulled(fixture, registry, { 'one:latest': one, 'two:latest': two });
  await fixture.images.tag(fixture.op, one.id, 'local/app:x');
  await fixture.images.tag(fixture.op, two.id, 'local/app:x');
  assert.equal(fixture.images.resolve('local/app:x')?.id, two.id);
  assert.deepEqual(fixture.images.resolve(one.id)?.repoTags, [`${registry.host}/one:latest`]);
  await assert.rejects(fixture.images.tag(fixture.op, 'none', 'a:b'), failsWith('NotFound', /none of that name/));
});
