import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { damagedLayer, digestOf, imageOf, layerOf } from '../../support/images.ts';
import { TestRegistry } from '../../support/registry.ts';

async function bytesOf(response: Response): Promise<Buffer> {
  return Buffer.from(await response.arrayBuffer());
}

test('the same content gives the same layer, whatever the compression', async () => {
  const layers = await Promise.all((['none', 'gzip', 'zstd'] as const).map((form) => layerOf('x', form)));
  assert.equal(new Set(layers.map(({ diffId }) => diffId)).size, 1);
  assert.equal(new Set(layers.map(({ digest }) => digest)).size, 3);
});

test('what was pushed is served by tag and digest, whole and in ranges', async () => {
  await using registry = await TestRegistry.start();
  const layer = await layerOf('x'.repeat(1000));
  const image = imageOf([layer], { docker: true });
  registry.push('some/app', image, '1', 'latest');
  const base = `http://${registry.host}/v2/some/app`;
  for (const target of ['1', 'latest', image.manifest.digest]) {
    const response = await fetch(`${base}/manifests/${target}`);
    assert.equal(response.headers.get('content-type'), 'application/vnd.docker.distribution.manifest.v2+json');
    assert.equal(digestOf(await bytesOf(response)), image.manifest.digest);
  }
  const url = `${base}/blobs/${layer.digest}`;
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
  registry.push('app', imageOf([]), '1');
  const url = `http://${registry.host}/v2/app/manifests/1`;
  const basic = { authorization: `Basic ${Buffer.from('me:secret').toString('base64')}` };
  registry.auth = { scheme: 'basic', login: 'me:secret', token: 'the-token' };
  assert.equal((await fetch(url)).headers.get('www-authenticate'), 'Basic realm="test"');
  assert.equal((await fetch(url, { headers: basic })).status, 200);
  registry.auth = { ...registry.auth, scheme: 'bearer' };
  const realm = /realm="([^"]+)"/.exec((await fetch(url)).headers.get('www-authenticate') ?? '')?.[1] ?? '';
  assert.equal((await fetch(realm)).status, 401);
  const { token } = (await (await fetch(realm, { headers: basic })).json()) as { token: string };
  assert.equal((await fetch(url, { headers: { authorization: `Bearer ${token}` } })).status, 200);
});

test('faults come as often as planned', async () => {
  await using registry = await TestRegistry.start();
  const layer = damagedLayer(await layerOf(Buffer.alloc(5000, 'ab')), Buffer.alloc(5000, 'cd'));
  registry.push('app', imageOf([layer]), '1');
  const url = `http://${registry.host}/v2/app/blobs/${layer.digest}`;
  registry.fail('/blobs/', { kind: 'status', status: 503, retryAfterSeconds: 7 }, 2);
  registry.fail('/blobs/', { kind: 'truncate' }, 1);
  registry.fail('/blobs/', { kind: 'wrong-bytes' }, 1);
  const refused = [await fetch(url), await fetch(url)];
  assert.deepEqual(
    refused.map(({ status, headers }) => [status, headers.get('retry-after')]),
    [
      [503, '7'],
      [503, '7'],
    ],
  );
  await assert.rejects(fetch(url).then(bytesOf));
  const wrong = await bytesOf(await fetch(url));
  assert.equal(wrong.length, layer.size);
  assert.notEqual(digestOf(wrong), layer.digest);
  assert.equal(digestOf(await bytesOf(await fetch(url))), layer.digest);
  registry.fail('/', { kind: 'reset' });
  await assert.rejects(fetch(url));
});
