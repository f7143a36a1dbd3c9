import assert from 'node:assert/strict';
import { mkdtemp, rmdir, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { readConfigFolder } from './config-folder.ts';
import { bridgeName, defaultConfig, networkName } from './default-network.ts';
import { collides, parseListeners } from './host-ports.ts';
import { parseNetworkConfig, pluginTypes } from './network-config.ts';
import { makePlan, readPlan, type NetworkRequest } from './network-plan.ts';
import { addressesOf, pluginInput } from './plugin-chain.ts';
import { pluginError, pluginFailure, saysGone } from './plugin-error.ts';
import { chooseSubnet, formatSubnet, overlaps, parseFibTrie, parseSubnet } from './subnet.ts';

const request: NetworkRequest = {
  ...{ sandboxId: 'sb', netnsPath: '/n', podName: 'p', podNamespace: 'ns', podUid: 'u', portMappings: [] },
};

test('lists and single plug-ins; what is wrong names the file', () => {
  const list = parseNetworkConfig(
    '{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"bridge","ipam":{"type":"host-local"}}]}',
    'f',
  );
  assert.deepEqual(pluginTypes(list), ['bridge', 'host-local']);
  assert.deepEqual(parseNetworkConfig('{"name":"n","type":"ptp"}', 'f').plugins[0]?.type, 'ptp');
  const bad = [
    '',
    '[]',
    '{"plugins":[]}',
    '{"name":"n","plugins":[]}',
    '{"name":"n","plugins":[{}]}',
    '{"name":"../n","type":"a"}',
  ];
  for (const text of [...bad, '{"name":"n","type":"../../bin/sh"}']) {
    assert.throws(() => parseNetworkConfig(text, 'the-file'), /the-file/, text);
  }
});

test('the first usable file by name counts', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'gantry-net-d-'));
  const write = (name: string, text: string): Promise<void> => writeFile(join(folder, name), text);
  assert.deepEqual(await readConfigFolder(join(folder, 'missing')), { kind: 'empty' });
  await write('00-readme.txt', 'x');
  assert.deepEqual(await readConfigFolder(folder), { kind: 'empty' });
  await write('10-b.conf', '{');
  assert.equal((await readConfigFolder(folder)).kind, 'unusable');
  await write('30-b.conflist', '{"name":"late","plugins":[{"type":"a"}]}');
  await write('20-b.conf', '{"name":"early","type":"a"}');
  const found = await readConfigFolder(folder);
  assert.equal(found.kind === 'found' && found.config.name, 'early');
  t.after(async () => {
    for (const name of ['00-readme.txt', '10-b.conf', '20-b.conf', '30-b.conflist']) await unlink(join(folder, name));
    await rmdir(folder);
  });
});

test('a plan has portmap for host ports only, and each plug-in gets the capabilities that it declares', () => {
  const config = defaultConfig('i', '/ipam', { bridge: 'b', subnet: '10.1.0.0/16' });
  const host = { bridge: 'b', subnet: '10.1.0.0/16' };
  const unpublished = [{ protocol: 'tcp', containerPort: 80, hostPort: 0 }] as const;
  const without = makePlan({ ...request, portMappings: unpublished }, config, [], { host });
  assert.deepEqual(
    without.network.plugins.map(({ type }) => type),
    ['bridge'],
  );
  const published = [{ protocol: 'tcp', containerPort: 80, hostPort: 8080, hostIp: '127.0.0.1' }] as const;
  const plan = makePlan({ ...request, portMappings: published }, config, [], { host });
  assert.deepEqual(
    plan.network.plugins.map(({ type }) => type),
    ['bridge', 'portmap'],
  );
  const [bridge, portmap] = plan.network.plugins;
  const input = (plugin: typeof bridge): Record<string, unknown> =>
    plugin === undefined ? {} : pluginInput(plan.network, plugin, plan.attachment.capabilities, { ips: [] });
  assert.equal(input(bridge)['runtimeConfig'], undefined);
  assert.deepEqual(input(portmap)['runtimeConfig'], {
    portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'tcp', hostIP: '127.0.0.1' }],
  });
  assert.equal(input(portmap)['capabilities'], undefined);
  assert.equal(input(portmap)['name'], networkName('i'));
  assert.deepEqual(
    readPlan(JSON.parse(JSON.stringify(plan)) as Record<string, unknown>),
    JSON.parse(JSON.stringify(plan)),
  );
  assert.throws(() => readPlan({ version: 2 }), /cannot be read/);
});

test("a plug-in's failure", () => {
  const result = (stdout: string, stderr = '', code = 1): Parameters<typeof pluginFailure>[0] => ({
    code,
    signal: null,
    stdout,
    stderr,
  });
  const said = pluginFailure(result('{"code":7,"msg":"bad","details":"very"}'));
  assert.equal(pluginError('bridge', 'ADD', said).message, 'CNI plug-in bridge failed (ADD): bad: very');
  assert.equal(pluginError('bridge', 'ADD', said).kind, 'FailedPrecondition');
  assert.equal(pluginFailure(result('', 'panic: oh', 2)).message, 'exit code 2: panic: oh');
  assert.equal(pluginFailure(result('garbage')).message, 'exit code 1: garbage');
  const full = pluginFailure(result('{"code":999,"msg":"no IP addresses available in range set: 10.0.0.0/30"}'));
  assert.equal(pluginError('x', 'ADD', full).kind, 'ResourceExhausted');
  assert.equal(saysGone({ code: 3, message: 'unknown container' }, false), true);
  const statfs = { code: 999, message: 'failed to Statfs "/proc/12/ns/net": no such file or directory' };
  assert.deepEqual([saysGone(statfs, true), saysGone(statfs, false)], [true, false]);
  assert.equal(saysGone({ code: 999, message: 'connection refused' }, true), false);
});

test('addresses of a result', () => {
  assert.deepEqual(addressesOf({ ips: [{ address: '10.0.0.2/16' }, { address: 'fd00::2/64', version: '6' }, {}] }), [
    ...['10.0.0.2', 'fd00::2'],
  ]);
  assert.deepEqual(addressesOf({}), []);
});

const FIB = `Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 192.0.2.0/24 2 0 2
        |-- 192.0.2.0
           /24 link UNICAST
        |-- 192.0.2.2
           /32 host LOCAL
Id 52:
  +-- 10.165.0.0/16 2 0 2
     |-- 10.165.0.0
        /16 universe UNICAST
     |-- 100.64.0.0
        /10 universe UNREACHABLE
`;

test("the host's routes, of all tables, without the default route", () => {
  assert.deepEqual(parseFibTrie(FIB).map(formatSubnet), [
    '192.0.2.0/24',
    '192.0.2.2/32',
    '10.165.0.0/16',
    '100.64.0.0/10',
  ]);
});

test('a chosen subnet overlaps nothing that is taken', () => {
  const subnet = fc.record({ address: fc.nat({ max: 0xffffffff }), prefix: fc.integer({ min: 6, max: 32 }) });
  fc.assert(
    fc.property(fc.array(subnet, { maxLength: 30 }), fc.nat(), (raw, seed) => {
      const taken = raw.flatMap(({ address, prefix }) => parseSubnet(formatSubnet({ address, prefix })) ?? []);
      const chosen = chooseSubnet(taken, seed);
      return chosen === undefined || taken.every((other) => !overlaps(chosen, other));
    }),
  );
  assert.notDeepEqual(chooseSubnet([], 1), chooseSubnet([], 2));
  const tens = parseSubnet('10.0.0.0/8');
  const chosen = chooseSubnet(tens === undefined ? [] : [tens], 7);
  assert.equal(chosen === undefined ? '' : formatSubnet(chosen), '172.16.0.0/16');
  assert.equal(parseSubnet('10.0.0.300/8'), undefined);
});

test('a bridge has a name that an interface can have', () => {
  assert.equal(bridgeName('abc'), 'gtry-abc');
  fc.assert(fc.property(fc.string(), (instance) => /^gtry-[a-z0-9-]{0,10}$/.test(bridgeName(instance))));
});

test('host ports', () => {
  const text = `  sl  local_address rem_address   st
   0: 0100007F:1F90 00000000:0000 0A 0 0 0 0 0 0 0
   1: 00000000:0050 00000000:0000 0A 0 0 0 0 0 0 0
   2: 0100007F:2328 0100007F:0050 01 0 0 0 0 0 0 0
`;
  assert.deepEqual(parseListeners(text, 'tcp'), [
    { protocol: 'tcp', port: 8080, address: '127.0.0.1' },
    { protocol: 'tcp', port: 80, address: '' },
  ]);
  const mapping = { protocol: 'tcp', containerPort: 1, hostPort: 8080 } as const;
  const local = { protocol: 'tcp', port: 8080, address: '127.0.0.1' } as const;
  assert.equal(collides(mapping, local), true);
  assert.equal(collides({ ...mapping, hostIp: '192.0.2.2' }, local), false);
  assert.equal(collides({ ...mapping, protocol: 'udp' }, local), false);
});
