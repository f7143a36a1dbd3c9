import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isKind } from '../lib/errors.ts';
import { dumpConfig, parseConfig, resolveConfig, SETTINGS } from './config.ts';

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
  ['--cgroup-parent', { cgroupParent: '/' }],
  ['--cgroup-parent', { cgroupParent: '/a/../..' }],
];
for (const [flag, given] of bad) {
  test(`${flag} ${JSON.stringify(Object.values(given)[0]).slice(0, 30)} is refused by name`, () => {
    assert.throws(
      () => resolveConfig(given, 'box'),
      (error) => isKind(error, 'InvalidArgument') && (error as Error).message.startsWith(flag),
    );
  });
}

test('every setting has a line of help', () => {
  assert.equal(new Set(SETTINGS.map((setting) => setting.key)).size, Object.keys(resolveConfig({}, 'box')).length);
});
