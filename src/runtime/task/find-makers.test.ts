import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isMakerOf, withDescendants } from './find-makers.ts';

const task = { id: 'abc', bundleDir: '/run/b/abc' };

test('a maker names both the bundle folder and the id', () => {
  assert.equal(isMakerOf(['conmon', '--cid', 'abc', '--bundle', '/run/b/abc'], task), true);
  assert.equal(isMakerOf(['runc', '--root', '/r', 'create', '--bundle', '/run/b/abc', 'abc'], task), true);
  assert.equal(isMakerOf(['conmon', '--cid', 'abc', '--bundle', '/run/b/abd'], task), false);
  assert.equal(isMakerOf(['conmon', '--cid', 'abd', '--bundle', '/run/b/abc'], task), false);
  assert.equal(isMakerOf(['vi', '/run/b/abc', 'abc'], task), false);
  assert.equal(isMakerOf([], task), false);
});

test('descendants come after their parents, strangers not at all', () => {
  const views = [
    { pid: 5, ppid: 4 },
    { pid: 4, ppid: 3 },
    { pid: 3, ppid: 1 },
    { pid: 9, ppid: 1 },
    { pid: 6, ppid: 3 },
  ];
  assert.deepEqual(
    withDescendants(views, new Set([3])).map((view) => view.pid),
    [3, 4, 6, 5],
  );
  assert.deepEqual(withDescendants(views, new Set()), []);
});
