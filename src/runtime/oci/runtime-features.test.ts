import assert from 'node:assert/strict';
import { test } from 'node:test';
import { featuresOf } from './runtime-features.ts';

test('an OCI runtime and the kernel must both know recursive read-only mounts', () => {
  const knows = JSON.stringify({ mountOptions: ['ro', 'rro'] });
  const can = (text: string, kernel: string): boolean => featuresOf(text, kernel).recursiveReadOnlyMounts;
  assert.equal(can(knows, '6.1.0-13-amd64'), true);
  assert.equal(can(knows, '5.12'), true);
  assert.equal(can(knows, '5.11.22'), false);
  for (const text of ['', 'unknown command features', 'null', '{"mountOptions":["ro"]}', '{"mountOptions":"rro"}']) {
    assert.equal(can(text, '6.1.0'), false, text);
  }
});

test('user namespaces: joined, and with mounts that have other ids', () => {
  const can = (linux: unknown): boolean => featuresOf(JSON.stringify({ linux }), '6.1').userNamespaces;
  const idmap = { mountExtensions: { idmap: { enabled: true } } };
  assert.equal(can({ namespaces: ['mount', 'user'], ...idmap }), true);
  for (const linux of [null, {}, idmap, { namespaces: ['user'] }, { namespaces: ['mount'], ...idmap }]) {
    assert.equal(can(linux), false, JSON.stringify(linux));
  }
});
