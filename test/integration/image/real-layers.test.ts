import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { it } from 'node:test';
import type { LayerDirectory } from '../../../src/runtime/snapshot/layer-directory.ts';
import type { ImageStoreDeps } from '../../../src/runtime/image/image-store.ts';
import { needsRoot, openRoom } from '../snapshot/room.ts';
import { failsWith, Fixture } from './fixture.ts';
import { TestRegistry } from '../../support/registry.ts';
import { damagedLayer, imageOf, layerOf } from '../../support/images.ts';

/** The real layer directory in place of the fake one: proof that it is what images expect. */
function over(layers: LayerDirectory): Pick<ImageStoreDeps, 'layers'> {
  return { layers };
}

it('pulls into real layers, and removes them with the image', needsRoot, async (t) => {
  const room = await openRoom(t);
  await using fixture = await Fixture.open(over(room.layers));
  await using registry = await TestRegistry.start();
  const layers = [await layerOf('lower', 'none'), await layerOf('middle', 'gzip'), await layerOf('upper', 'zstd')];
  const image = imageOf(layers);
  registry.push('app', image, 'latest');
  const record = await fixture.images.pull(fixture.op, `${registry.host}/app`);
  for (const [i, content] of ['lower', 'middle', 'upper'].entries()) {
    const diffId = record.layers[i]?.diffId ?? '';
    assert.equal(await readFile(join(room.layers.filesOf(diffId), 'file'), 'utf8'), content);
  }
  assert.ok(record.sizeBytes > 0);
  await fixture.images.remove(fixture.op, record.id);
  assert.deepEqual(room.layerNames(), []);
});

it('says what is wrong with a layer that cannot be unpacked', needsRoot, async (t) => {
  const room = await openRoom(t);
  await using fixture = await Fixture.open(over(room.layers));
  await using registry = await TestRegistry.start();
  const good = await layerOf(randomBytes(20_000), 'gzip');
  const other = await layerOf('other');
  const bad = {
    corrupt: damagedLayer(good, Buffer.from(good.data).fill(0, 5000, 6000)),
    truncated: damagedLayer(good, good.data.subarray(0, 9000)),
    another: { ...good, diffId: other.diffId },
  };
  for (const [name, layer] of Object.entries(bad)) {
    registry.push(name, imageOf([layer]), 'latest');
    await assert.rejects(
      fixture.images.pull(fixture.op, `${registry.host}/${name}`),
      failsWith('DataLoss', /layer sha256:/),
    );
  }
  assert.deepEqual(room.layerNames(), []);
  assert.deepEqual(await fixture.leftovers(), []);
});

it('imports a folder as a root file system, twice the same', needsRoot, async (t) => {
  const room = await openRoom(t);
  await using fixture = await Fixture.open(over(room.layers));
  const path = join(room.base, 'rootfs');
  await mkdir(join(path, 'bin'), { recursive: true });
  await writeFile(join(path, 'bin/tool'), 'tool', { mode: 0o755 });
  await symlink('tool', join(path, 'bin/alias'));
  const request = { kind: 'rootfs', path, name: 'local/tool', settings: { entrypoint: ['/bin/tool'] } } as const;
  const [first] = await fixture.images.import(fixture.op, request);
  const [second] = await fixture.images.import(fixture.op, request);
  assert.equal(first?.image.id, second?.image.id);
  assert.equal(fixture.images.list().length, 1);
  const diffId = first?.image.layers[0]?.diffId ?? '';
  assert.equal(await readFile(join(room.layers.filesOf(diffId), 'bin/alias'), 'utf8'), 'tool');
  assert.ok(fixture.images.fsInfo().usedBytes > 0);
  await fixture.images.remove(fixture.op, 'local/tool');
  assert.deepEqual(room.layerNames(), []);
});
