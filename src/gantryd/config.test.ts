import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isKind } from '../lib/errors.ts';
import { dumpConfig, flagOf, parseConfig, resolveConfig, SETTINGS } from './config.ts';

test('the defaults are the paths that the documentation names', () => {
  const config = resolveConfig({}, 'Box');
  assert.equal(config.root, '/var/lib/gantry');
  assert.equal(config.state, '/run/gantry');
  assert.equal(config.criListen, 'unix:///run/gantry/gantry.sock');
  assert.equal(config.apiListen, 'unix:///run/gantry/api.sock');
  assert.equal(config.podsDir, '/var/lib/gantry/pods');
  assert.equal(config.cgroupParent, '/gantry');
  assert.equal(config.nodeName, 'box');
});

test('another root folder gets a state folder, an instance and a cgroup parent of its own', () => {
  const one = resolveConfig({ root: '/srv/one' }, 'box');
  const two = resolveConfig({ root: '/srv/two' }, 'box');
  assert.equal(one.state, '/srv/one/run');
  assert.notEqual(one.instance, two.instance);
  assert.notEqual(one.cgroupParent, two.cgroupParent);
  assert.equal(one.instance, resolveConfig({ root: '/srv/one' }, 'other').instance);
});

test('a dumped configuration reads back as the same configuration', () => {
  const config = resolveConfig({ root: '/srv/one', cniBinDir: '/a,/b', runtimeOnly: true, logLevel: 'debug' }, 'box');
  assert.deepEqual(resolveConfig(parseConfig(dumpConfig(config), 'dump'), 'elsewhere'), config);
  assert.deepEqual(config.pinnedImages, []);
  const pinning = resolveConfig({ pinnedImages: 'busybox,host:5000/a:1' }, 'box');
  assert.deepEqual(resolveConfig(parseConfig(dumpConfig(pinning), 'dump'), 'box'), pinning);
});

const refused: readonly [title: string, text: string, message: RegExp][] = [
  ['an unknown key', 'rooot: /x', /unknown setting "rooot"/],
  ['a wrong type', 'runtime-only: "yes"', /runtime-only should be a boolean/],
  ['a list at the top', '- a', /mapping/],
  ['broken YAML', 'root: [', /config file f/],
];
for (const [title, text, message] of refused) {
  test(`a config file with ${title} is refused by name`, () => {
    assert.throws(
      () => parseConfig(text, 'f'),
      (error) => isKind(error, 'InvalidArgument') && message.test((error as Error).message),
    );
  });
}

const bad: readonly [flag: string, given: Parameters<typeof resolveConfig>[0]][] = [
  ['--root', { root: 'relative' }],
  ['--cri-listen', { criListen: 'tcp://1.2.3.4:5' }],
  ['--cri-listen', { criListen: `unix:///${'x'.repeat(120)}` }],
  ['--instance', { instance: 'Far-too-long' }],
  ['--log-level', { logLevel: 'loud' }],
  ['--pinned-images', { pinnedImages: 'busybox,No/Such' }],
  ['--cni-bin-dir', { cniBinDir: '/a,b' }],
  ['--cdi-spec-dir', { cdiSpecDir: '/etc/cdi,' }],
  ['--cgroup-parent', { cgroupParent: '/' }],
  ['--cgroup-parent', { cgroupParent: '/a/../..' }],
  ['--node-name', { nodeName: 'bad name!' }],
  ['--node-name', { nodeName: 'Box' }],
  ['--streaming-address', { streamingAddress: 'nonsense' }],
  ['--streaming-address', { streamingAddress: '127.0.0.1:99999' }],
  ['--streaming-address', { streamingAddress: '127.0.0.1:' }],
  ['--streaming-address', { streamingAddress: '300.0.0.1:1' }],
  ['--streaming-address', { streamingAddress: '::1:1' }],
  ['--streaming-address', { streamingAddress: '[::g]:1' }],
  ['--streaming-address', { streamingAddress: ':10010' }],
];
for (const [flag, given] of bad) {
  test(`${flag} ${JSON.stringify(Object.values(given)[0]).slice(0, 30)} is refused by name`, () => {
    assert.throws(
      () => resolveConfig(given, 'box'),
      (error) => isKind(error, 'InvalidArgument') && (error as Error).message.startsWith(flag),
    );
  });
}

for (const { key, placeholder } of SETTINGS) {
  if (placeholder === undefined) continue;
  test(`${flagOf(key)} with an empty value is not the default: it is refused, in the config file as well`, () => {
    const name = flagOf(key).slice(2);
    for (const given of [{ [key]: '' }, parseConfig(`${name}: ''`, 'f')]) {
      assert.throws(
        () => resolveConfig(given, 'box'),
        (error) => isKind(error, 'InvalidArgument') && (error as Error).message.startsWith(`${flagOf(key)}: `),
      );
    }
    assert.throws(() => parseConfig(`${name}:`, 'f'), new RegExp(`${name} should be a string`));
  });
}

test('a host whose name no Node may have gives a name that one may', () => {
  const names = ['My_Box', 'box', 'a.b-c', '-x_.y', 'box.', '', '___'].map((host) => resolveConfig({}, host).nodeName);
  assert.deepEqual(names, ['my-box', 'box', 'a.b-c', 'x.y', 'box', 'localhost', 'localhost']);
});

test('addresses to stream on: IPv4, IPv6 in brackets, names', () => {
  for (const streamingAddress of ['0.0.0.0:0', '127.0.0.1:65535', '[::1]:10010', 'localhost:80']) {
    assert.equal(resolveConfig({ streamingAddress }, 'box').streamingAddress, streamingAddress);
  }
});

test('every setting has a line of help', () => {
  assert.equal(new Set(SETTINGS.map((setting) => setting.key)).size, Object.keys(resolveConfig({}, 'box')).length);
});
