import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { entryMeaning, entryPath } from './entry-path.ts';

test('names become paths below the root', () => {
  const cases: readonly (readonly [string, string, string])[] = [
    ['a', '', 'a'],
    ['a/b', 'a', 'b'],
    ['./a/b', 'a', 'b'],
    ['/a/b', 'a', 'b'],
    ['//a///b//', 'a', 'b'],
    ['a/./b/.', 'a', 'b'],
    ['a/../b', '', 'b'],
    ['a/b/../../c/d', 'c', 'd'],
    ['.', '', ''],
    ['./', '', ''],
    ['/', '', ''],
    ['a/..', '', ''],
    ['...', '', '...'],
    ['a/..b/c', 'a/..b', 'c'],
    ['..a', '', '..a'],
  ];
  for (const [name, parent, last] of cases) assert.deepEqual(entryPath(name), { parent, name: last }, name);
});

test('names that climb out, and empty ones, are refused', () => {
  for (const name of ['..', '../a', 'a/../../b', '/..', '/../etc/passwd', './..', 'a/b/../../../c', '']) {
    assert.throws(() => entryPath(name), { kind: 'InvalidArgument' }, JSON.stringify(name));
  }
});

test('no path has an empty, dot or dot-dot component', () => {
  const part = fc.constantFrom('', '.', '..', 'a', 'b', '...', '.wh.x');
  fc.assert(
    fc.property(fc.array(part, { minLength: 1, maxLength: 8 }), (parts) => {
      let path;
      try {
        path = entryPath(parts.join('/'));
      } catch {
        return;
      }
      const whole = path.parent === '' ? path.name : `${path.parent}/${path.name}`;
      if (whole === '') return;
      for (const component of whole.split('/')) assert.ok(!['', '.', '..'].includes(component), whole);
    }),
  );
});

test('whiteouts, opaque marks and what is left of aufs', () => {
  const meaning = (name: string) => entryMeaning(entryPath(name));
  assert.deepEqual(meaning('a/b'), { kind: 'plain' });
  assert.deepEqual(meaning('a/.whb'), { kind: 'plain' });
  assert.deepEqual(meaning('a.wh.b'), { kind: 'plain' });
  assert.deepEqual(meaning('x.wh.y/b'), { kind: 'plain' });
  assert.deepEqual(meaning('a/.wh.b'), { kind: 'whiteout', name: 'b' });
  assert.deepEqual(meaning('.wh.b'), { kind: 'whiteout', name: 'b' });
  assert.deepEqual(meaning('.wh....'), { kind: 'whiteout', name: '...' });
  assert.deepEqual(meaning('a/.wh..wh..opq'), { kind: 'opaque' });
  assert.deepEqual(meaning('.wh..wh.plnk/1.2'), { kind: 'ignored' });
  assert.deepEqual(meaning('.wh..wh.aufs'), { kind: 'ignored' });
});

test('whiteouts of nothing, of the directory itself and of its parent are refused', () => {
  for (const name of ['.wh.', 'a/.wh.', 'a/.wh..', 'a/.wh...', '.wh...', 'a/.wh./', '.wh.a/b', 'x/.wh.a/b/c']) {
    assert.throws(() => entryMeaning(entryPath(name)), { kind: 'InvalidArgument' }, name);
  }
});
