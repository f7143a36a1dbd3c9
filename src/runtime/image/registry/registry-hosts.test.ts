import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { silentLog } from '../../../lib/log.ts';
import { registryHosts } from './registry-hosts.ts';

const op = { signal: new AbortController().signal, log: silentLog };

describe('registryHosts without configuration', () => {
  const table: readonly (readonly [string, string, string | undefined])[] = [
    ['docker.io', 'https://registry-1.docker.io/v2', undefined],
    ['a.example', 'https://a.example/v2', undefined],
    ['a.example:5000', 'https://a.example:5000/v2', undefined],
    ['localhost:5000', 'http://localhost:5000/v2', undefined],
    ['127.0.0.1:5000', 'http://127.0.0.1:5000/v2', undefined],
    ['[::1]:5000', 'http://[::1]:5000/v2', undefined],
    ['localhost:443', 'https://localhost/v2', undefined],
    ['10.0.0.1:5000', 'https://10.0.0.1:5000/v2', undefined],
  ];
  for (const [domain, base, standsFor] of table) {
    it(domain, async () => {
      const [host, ...others] = await registryHosts(op, undefined, domain);
      assert.equal(host?.base.href, base);
      assert.equal(host.standsFor, standsFor);
      assert.ok(host.isUpstream);
      assert.deepEqual(others, []);
    });
  }
});

describe('registryHosts with a configuration', () => {
  let dir = '';
  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'gantry-hosts-'));
    const write = async (host: string, files: Readonly<Record<string, string>>): Promise<void> => {
      await mkdir(join(dir, host));
      for (const [name, content] of Object.entries(files)) await writeFile(join(dir, host, name), content);
    };
    await write('docker.io', {
      'hosts.toml':
        'server = "http://proxy.example/root/"\n[host."mirror.example"]\n[host."https://m2.example/v2"]\nca = "ca.pem"\n',
    });
    await write('a.example_5000_', { 'hosts.toml': '[host."http://safe.example"]' });
    await write('bare.example', { 'ca.crt': '', 'one.cert': '', 'one.key': '', 'two.cert': '' });
    await write('_default', { 'hosts.toml': '[host."https://default.example"]\ncapabilities = ["pull"]\n' });
    await write('itself.example', {
      'hosts.toml':
        'server = "http://itself.example"\n[host."http://first.example"]\n[host."http://itself.example"]\ncapabilities = ["pull"]\nskip_verify = true\n',
    });
    await write('silent.example', { 'hosts.toml': 'capabilities = ["push"]\n' });
  });
  after(async () => {
    await rm(dir, { recursive: true });
  });

  const hrefs = async (domain: string): Promise<string[]> =>
    (await registryHosts(op, dir, domain)).map(({ base }) => base.href);

  it('puts mirrors first and finds their paths', async () => {
    assert.deepEqual(await hrefs('docker.io'), [
      'https://mirror.example/v2',
      'https://m2.example/v2',
      'http://proxy.example/root/v2',
    ]);
    const hosts = await registryHosts(op, dir, 'docker.io');
    assert.deepEqual(
      hosts.map((host) => [host.standsFor, host.isUpstream]),
      [
        ['docker.io', false],
        ['docker.io', false],
        ['docker.io', true],
      ],
    );
    assert.deepEqual(hosts[1]?.tls.ca, [join(dir, 'docker.io', 'ca.pem')]);
  });

  it('finds folders without a colon in their name, certificates alone, and _default', async () => {
    assert.deepEqual(await hrefs('a.example:5000'), ['http://safe.example/v2', 'https://a.example:5000/v2']);
    const [bare] = await registryHosts(op, dir, 'bare.example');
    assert.deepEqual(bare?.tls, {
      skipVerify: false,
      ca: [join(dir, 'bare.example', 'ca.crt')],
      client: [{ cert: join(dir, 'bare.example', 'one.cert'), key: join(dir, 'bare.example', 'one.key') }],
    });
    const [mirror, upstream] = await registryHosts(op, dir, 'other.example');
    assert.deepEqual([mirror?.base.host, mirror?.canResolve], ['default.example', false]);
    assert.equal(upstream?.base.host, 'other.example');
  });

  it('asks a server once that is also named among its mirrors, as it says there', async () => {
    const hosts = await registryHosts(op, dir, 'itself.example');
    assert.deepEqual(
      hosts.map(({ base, isUpstream, canResolve, tls }) => [base.host, isUpstream, canResolve, tls.skipVerify]),
      [
        ['first.example', false, true, false],
        ['itself.example', true, true, true],
      ],
    );
  });

  it('asks no host that may not be asked', async () => {
    assert.deepEqual(await hrefs('silent.example'), []);
  });
});
