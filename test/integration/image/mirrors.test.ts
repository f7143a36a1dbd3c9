import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { failsWith, Fixture } from './fixture.ts';
import { TestRegistry } from '../../support/registry.ts';
import { TEST_CERTIFICATE } from '../../support/test-certificate.ts';
import { imageOf, layerOf } from '../../support/images.ts';

async function configure(fixture: Fixture, host: string, content: string): Promise<string> {
  const dir = join(fixture.dir, 'certs.d', host);
  await mkdir(dir, { recursive: true });
  await writeFile(join(dir, 'hosts.toml'), content);
  return dir;
}

describe('mirrors', () => {
  it('whose file cannot be read are the fault of this machine, of one registry, and at a line', async () => {
    await using fixture = await Fixture.open();
    await using registry = await TestRegistry.start();
    const image = imageOf([await layerOf('one')]);
    registry.push('app', image, 'latest');
    const dir = await configure(fixture, 'broken.example', 'server = "https://broken.example"\n[host.\n');
    await assert.rejects(
      fixture.images.pull(fixture.op, 'broken.example/app'),
      failsWith('FailedPrecondition', new RegExp(`${dir}/hosts\\.toml:2: `)),
    );
    await configure(fixture, 'nowhere.example', '\n[host."http://:x"]\n');
    await assert.rejects(
      fixture.images.pull(fixture.op, 'nowhere.example/app'),
      failsWith('FailedPrecondition', /hosts\.toml:2: /),
    );
    assert.equal((await fixture.images.pull(fixture.op, `${registry.host}/app`)).id, image.id);
  });

  it('are asked before the registry, with the name of what they stand for', async () => {
    await using fixture = await Fixture.open();
    await using mirror = await TestRegistry.start();
    const image = imageOf([await layerOf('one')]);
    mirror.push('library/busybox', image, 'latest');
    await configure(
      fixture,
      'docker.io',
      `server = "https://unreachable.invalid"\n[host."http://${mirror.host}"]\n  capabilities = ["pull", "resolve"]\n  [host."http://${mirror.host}".header]\n    x-token = "yes"\n`,
    );
    const record = await fixture.images.pull(fixture.op, 'busybox');
    assert.deepEqual(record.repoTags, ['docker.io/library/busybox:latest']);
    for (const { query, headers } of mirror.requests) {
      assert.equal(query.get('ns'), 'docker.io');
      assert.equal(headers['x-token'], 'yes');
    }
  });

  it('are passed over when they fail or lack something', async () => {
    await using fixture = await Fixture.open();
    await using broken = await TestRegistry.start();
    await using partial = await TestRegistry.start();
    await using registry = await TestRegistry.start();
    const image = imageOf([await layerOf('one')]);
    registry.push('app', image, 'latest');
    partial.pushManifest('app', image.manifest, 'latest');
    broken.fail('/', { kind: 'status', status: 502 });
    await configure(fixture, registry.host, `[host."http://${broken.host}"]\n[host."http://${partial.host}"]\n`);
    assert.equal((await fixture.images.pull(fixture.op, `${registry.host}/app`)).id, image.id);
    assert.ok(broken.requests.length > 0);
    assert.equal(registry.count('/manifests/'), 0);
    assert.ok(registry.count('/blobs/') > 0);
  });

  it('that can not resolve are asked by digest only', async () => {
    await using fixture = await Fixture.open();
    await using mirror = await TestRegistry.start();
    await using registry = await TestRegistry.start();
    const image = imageOf([await layerOf('one')]);
    registry.push('app', image, 'latest');
    mirror.push('app', image);
    await configure(fixture, registry.host, `[host."http://${mirror.host}"]\n  capabilities = ["pull"]\n`);
    await fixture.images.pull(fixture.op, `${registry.host}/app`);
    assert.equal(mirror.count('/manifests/latest'), 0);
    assert.equal(registry.count('/blobs/'), 0);
  });

  it('get no credentials that are for the registry', async () => {
    await using fixture = await Fixture.open();
    await using mirror = await TestRegistry.start();
    await using registry = await TestRegistry.start();
    const image = imageOf([await layerOf('one')]);
    for (const one of [mirror, registry]) {
      one.push('app', image, 'latest');
      one.auth = { scheme: 'basic', login: 'user:password', token: '' };
    }
    await configure(fixture, registry.host, `[host."http://${mirror.host}"]\n`);
    await fixture.images.pull(fixture.op, `${registry.host}/app`, { username: 'user', password: 'password' });
    assert.ok(mirror.requests.length > 0);
    for (const { headers } of mirror.requests) assert.equal(headers.authorization, undefined);
  });

  it('say in one message what all of them answered', async () => {
    await using fixture = await Fixture.open();
    await using mirror = await TestRegistry.start();
    await using registry = await TestRegistry.start();
    mirror.fail('/', { kind: 'status', status: 403 });
    await configure(fixture, registry.host, `[host."http://${mirror.host}"]\n`);
    await assert.rejects(
      fixture.images.pull(fixture.op, `${registry.host}/app`),
      failsWith('NotFound', /404.*\(mirrors: .*403/),
    );
  });

  it('of _default stand for every registry, and paths can be overridden', async () => {
    await using fixture = await Fixture.open();
    await using mirror = await TestRegistry.start();
    const image = imageOf([await layerOf('one')]);
    mirror.push('proxy/app', image, 'latest');
    await configure(fixture, '_default', `[host."http://${mirror.host}/v2/proxy"]\n  override_path = true\n`);
    assert.equal((await fixture.images.pull(fixture.op, 'any.invalid/app')).id, image.id);
    assert.equal(mirror.requests[0]?.query.get('ns'), 'any.invalid');
  });
});

describe('TLS', () => {
  it('is refused without trust, and works with ca or skip_verify', async () => {
    await using fixture = await Fixture.open();
    await using registry = await TestRegistry.start({ tls: true });
    const image = imageOf([await layerOf('one')]);
    registry.push('app', image, 'latest');
    const name = `${registry.host}/app`;
    const server = `server = "https://${registry.host}"\n`;
    const dir = await configure(fixture, registry.host, server);
    await assert.rejects(
      fixture.images.pull(fixture.op, name),
      failsWith('FailedPrecondition', /not trusted: put its authority/),
    );
    await configure(fixture, registry.host, `${server}ca = "ca.pem"\n`);
    await assert.rejects(fixture.images.pull(fixture.op, name), failsWith('FailedPrecondition', /ca\.pem/));
    await writeFile(join(dir, 'ca.pem'), TEST_CERTIFICATE);
    assert.equal((await fixture.images.pull(fixture.op, name)).id, image.id);
    await configure(fixture, registry.host, `${server}skip_verify = true\n`);
    assert.equal((await fixture.images.pull(fixture.op, name)).id, image.id);
  });

  it('with a registry that speaks plain http says so', async () => {
    await using fixture = await Fixture.open();
    await using registry = await TestRegistry.start();
    await configure(fixture, registry.host, `server = "https://${registry.host}"\n`);
    await assert.rejects(
      fixture.images.pull(fixture.op, `${registry.host}/app`),
      failsWith('FailedPrecondition', /plain http/),
    );
  });
});
