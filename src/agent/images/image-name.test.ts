import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isImageName } from './image-name.ts';

const DIGEST = `sha256:${'0123456789abcdef'.repeat(4)}`;

test('names of images', () => {
  const names = [
    'busybox',
    'busybox:1.36',
    'a/b',
    'localhost/gantry/busybox:1',
    '127.0.0.1:5000/a/b-c_d.e:x',
    '[::1]:5000/a:1',
  ];
  for (const name of [...names, `Example.test/a@${DIGEST}`, `a/b:1@${DIGEST}`]) assert.ok(isImageName(name), name);
});

test('what is none', () => {
  for (const text of [
    '',
    'UPPER CASE',
    'a b',
    'a/B',
    ':1',
    'a:',
    'a/',
    '/a',
    'a//b',
    'a@sha256:12',
    'http://a/b',
    'a:b:c',
    `a:${'x'.repeat(129)}`,
  ]) {
    assert.ok(!isImageName(text), text);
  }
});
