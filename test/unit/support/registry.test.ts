import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { corruptGzipLayer, digestOf, imageOf, layerOf } from '../../support/images.ts';
import { TestRegistry } from '../../support/registry.ts';

async function bytesOf(response: Response): Promise<Buffer> {
  return Buffer.from(await response.arrayBuffer());
}

test('what was pushed is served by tag and digest, whole and in ranges', async () => {
  await using registry = await TestRegistry.start();
  const layer = await layerOf([{ name: 'file', content: 'x'.repeat(1000) }]);
  const image = imageOf([layer], { format: 'docker', config: { Cmd: ['/run'] } });
  assert.equal(registry.push('some/app', image, '1', 'latest'), `${registry.host}/some/app:1`);
  const base = `http://${registry.host}/v2/some/app`;
  for (const target of ['1', 'latest', image.manifest.digest]) {
    const response = await fetch(`${base}/manifests/${target}`);
    assert.equal(response.headers.get('content-type'), 'application/vnd.docker.distribution.manifest.v2+json');
    assert.equal(digestOf(await bytesOf(response)), image.manifest.digest);
  }
  const url = `${base}/blobs/${layer.blob.digest}`;
  const whole = await bytesOf(await fetch(url));
  assert.equal(digestOf(gunzipSync(whole)), layer.diffId);
  const rest = await fetch(url, { headers: { range: 'bytes=10-' } });
  assert.equal(rest.status, 206);
  assert.deepEqual(await bytesOf(rest), whole.subarray(10));
  assert.equal((await fetch(`${base}/manifests/2`)).status, 404);
  assert.equal(registry.count('/manifests/'), 4);
});

test('a login is asked for, by basic and by token', async () => {
  await using registry = await TestRegistry.start();
  const url = `http://${registry.host}/v2/`;
  const basic = { authorization: `Basic ${Buffer.from('me:secret').toString('base64')}` };
  registry.login = { scheme: 'basic', username: 'me', password: 'secret' };
  assert.equal((await fetch(url)).headers.get('www-authenticate'), 'Basic realm="test"');
  assert.equal((await fetch(url, { headers: basic })).status, 200);
  registry.login = { ...registry.login, scheme: 'token' };
  const realm = /realm="([^"]+)"/.exec((await fetch(url)).headers.get('www-authenticate') ?? '')?.[1] ?? '';
  assert.equal((await fetch(realm)).status, 401);
  const { token } = (await (await fetch(realm, { headers: basic })).json()) as { token: string };
  assert.equal((await fetch(url, { headers: { authorization: `Bearer ${token}` } })).status, 200);
});

test('faults come as often as planned', async () => {
  await using registry = await TestRegistry.start();
  const layer = corruptGzipLayer(await layerOf([{ name: 'file', content: Buffer.alloc(5000, 'ab') }]));
  registry.push('app', imageOf([layer]), '1');
  const url = `http://${registry.host}/v2/app/blobs/${layer.blob.digest}`;
  const good = await bytesOf(await fetch(url));
  assert.equal(digestOf(good), layer.blob.digest);
  assert.throws(() => gunzipSync(good));
  registry.fail('/blobs/', { kind: 'status', status: 503 }, 2);
  registry.fail('/blobs/', { kind: 'truncate' }, 1);
  registry.fail('/blobs/', { kind: 'wrong-bytes' }, 1);
  registry.fail('/blobs/', { kind: 'slow', pieceBytes: 20, pauseMs: 1 }, 1);
  assert.equal((await fetch(url)).status, 503);
  assert.equal((await fetch(url)).status, 503);
  await assert.rejects(fetch(url).then(bytesOf));
  const wrong = await bytesOf(await fetch(url));
  assert.equal(wrong.length, good.length);
  assert.notDeepEqual(wrong, good);
  assert.deepEqual(await bytesOf(await fetch(url)), good);
  registry.fail(/./, { kind: 'reset' });
  await assert.rejects(fetch(url));
  registry.heal();
  assert.deepEqual(await bytesOf(await fetch(url)), good);
});
