import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { isKind } from '../../lib/errors.ts';
import { applyMerge } from './apply-merge.ts';
import { jsonPatch } from './json-patch.ts';
import { mergePatch } from './merge-patch.ts';
import { strategicMerge } from './strategic-merge.ts';

const json = fc.jsonValue({ maxDepth: 4 }) as fc.Arbitrary<unknown>;
const record = fc.dictionary(fc.string({ maxLength: 3 }), json, { maxKeys: 4, noNullPrototype: true });

/** JSON without null members, which no merge patch can express. */
function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, item]) => item !== null)
      .map(([key, item]) => [key, withoutNulls(item)]),
  );
}

/** The examples of RFC 7386, appendix A. */
const MERGES: readonly (readonly [target: unknown, patch: unknown, result: unknown])[] = [
  [{ a: 'b' }, { a: 'c' }, { a: 'c' }],
  [{ a: 'b' }, { b: 'c' }, { a: 'b', b: 'c' }],
  [{ a: 'b' }, { a: null }, {}],
  [{ a: 'b', b: 'c' }, { a: null }, { b: 'c' }],
  [{ a: ['b'] }, { a: 'c' }, { a: 'c' }],
  [{ a: 'c' }, { a: ['b'] }, { a: ['b'] }],
  [{ a: { b: 'c' } }, { a: { b: 'd', c: null } }, { a: { b: 'd' } }],
  [{ a: [{ b: 'c' }] }, { a: [1] }, { a: [1] }],
  [
    ['a', 'b'],
    ['c', 'd'],
    ['c', 'd'],
  ],
  [{ a: 'b' }, ['c'], ['c']],
  [{ a: 'foo' }, null, null],
  [{ e: null }, { a: 1 }, { e: null, a: 1 }],
  [[1, 2], { a: 'b', c: null }, { a: 'b' }],
  [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
];

test('merge patch: the examples of its RFC', () => {
  for (const [target, patch, result] of MERGES) assert.deepEqual(mergePatch(target, patch), result);
});

test('merge patch: laws', () => {
  fc.assert(
    fc.property(record, record, (target, patch) => {
      const frozen = structuredClone([target, patch]);
      const once = mergePatch(target, patch);
      assert.deepEqual(mergePatch(once, patch), once, 'twice is once');
      assert.deepEqual(mergePatch(target, {}), target, 'the empty patch changes nothing');
      assert.deepEqual([target, patch], frozen, 'arguments stay as they are');
    }),
  );
});

test('strategic merge: without lists it is a merge patch', () => {
  const noLists = fc.dictionary(
    fc.constantFrom('a', 'b', 'c'),
    fc.oneof(
      fc.string(),
      fc.constant(null),
      fc.dictionary(fc.constantFrom('x', 'y'), fc.oneof(fc.nat(), fc.constant(null))),
    ),
  );
  fc.assert(
    fc.property(noLists, noLists, (target, patch) => {
      assert.deepEqual(strategicMerge(target, patch), mergePatch(target, patch));
    }),
  );
});

test('strategic merge: lists by key, directives', () => {
  const target = {
    containers: [
      { name: 'a', image: 'x', args: ['1', '2'] },
      { name: 'b', image: 'y', env: [{ name: 'E', value: '1' }] },
    ],
    finalizers: ['one', 'two'],
  };
  assert.deepEqual(
    strategicMerge(target, {
      containers: [
        { name: 'b', env: [{ name: 'F', value: '2' }] },
        { name: 'a', args: ['3'] },
        { name: 'c', image: 'z' },
      ],
    }),
    {
      containers: [
        { name: 'a', image: 'x', args: ['3'] },
        {
          name: 'b',
          image: 'y',
          env: [
            { name: 'E', value: '1' },
            { name: 'F', value: '2' },
          ],
        },
        { name: 'c', image: 'z' },
      ],
      finalizers: ['one', 'two'],
    },
  );
  assert.deepEqual(
    strategicMerge(target, {
      containers: [{ name: 'a', $patch: 'delete' }],
      '$deleteFromPrimitiveList/finalizers': ['one'],
    }),
    { containers: [target.containers[1]], finalizers: ['two'] },
  );
  assert.deepEqual(strategicMerge(target, { containers: [{ $patch: 'replace' }, { name: 'n' }] }), {
    containers: [{ name: 'n' }],
    finalizers: ['one', 'two'],
  });
  assert.deepEqual(
    strategicMerge(target, {
      '$setElementOrder/containers': [{ name: 'c' }, { name: 'b' }, { name: 'a' }],
      containers: [{ name: 'c', image: 'z' }],
    }),
    { containers: [{ name: 'c', image: 'z' }, target.containers[1], target.containers[0]], finalizers: ['one', 'two'] },
  );
  assert.deepEqual(strategicMerge({ v: { a: 1, b: 2 } }, { v: { $retainKeys: ['b', 'c'], c: 3 } }), {
    v: { b: 2, c: 3 },
  });
  assert.deepEqual(strategicMerge({ v: { a: 1 } }, { v: { $patch: 'replace', b: 2 } }), { v: { b: 2 } });
  for (const patch of [{ '$x/y': 1 }, { a: { $patch: 'x' } }, { containers: [{ image: 'x' }] }]) {
    assert.throws(
      () => strategicMerge({}, patch),
      (error) => isKind(error, 'InvalidArgument'),
    );
  }
});

const at = (object: unknown, ...operations: unknown[]): unknown => jsonPatch(object, operations);

test('JSON patch: every operation', () => {
  assert.deepEqual(at({ a: 1 }, { op: 'add', path: '/b', value: [1] }, { op: 'add', path: '/b/-', value: 2 }), {
    a: 1,
    b: [1, 2],
  });
  assert.deepEqual(at({ a: [1, 2] }, { op: 'add', path: '/a/0', value: 0 }), { a: [0, 1, 2] });
  assert.deepEqual(at({ a: [1, 2] }, { op: 'remove', path: '/a/0' }), { a: [2] });
  assert.deepEqual(at({ 'a/b': { '~': 1 } }, { op: 'replace', path: '/a~1b/~0', value: 2 }), { 'a/b': { '~': 2 } });
  assert.deepEqual(at({ a: { b: 1 } }, { op: 'move', from: '/a/b', path: '/c' }), { a: {}, c: 1 });
  assert.deepEqual(at({ a: { b: 1 } }, { op: 'copy', from: '/a', path: '/c' }), { a: { b: 1 }, c: { b: 1 } });
  assert.deepEqual(at({ a: 1 }, { op: 'test', path: '/a', value: 1 }), { a: 1 });
  assert.deepEqual(at({ a: 1 }, { op: 'replace', path: '', value: 3 }), 3);
});

test('JSON patch: what does not fit is refused', () => {
  for (const operation of [
    { op: 'add', path: '/x/y', value: 1 },
    { op: 'add', path: '/a/2', value: 1 },
    { op: 'add', path: '/a/01', value: 1 },
    { op: 'remove', path: '/x' },
    { op: 'remove', path: '' },
    { op: 'replace', path: '/x', value: 1 },
    { op: 'test', path: '/a', value: [2] },
    { op: 'move', from: '/x', path: '/y' },
    { op: 'move', from: '/a', path: '/a/0' },
    { op: 'add', path: 'a', value: 1 },
    { op: 'add', path: '/a' },
    { op: 'what', path: '/a' },
    1,
  ]) {
    assert.throws(
      () => at({ a: [1] }, operation),
      (error) => isKind(error, 'InvalidArgument'),
      JSON.stringify(operation),
    );
  }
});

test('JSON patch: an added member can be removed again, and never throws anything but InvalidArgument', () => {
  fc.assert(
    fc.property(record, json, fc.string(), (target, value, text) => {
      const path = `/new-${text.replaceAll('~', '~0').replaceAll('/', '~1')}`;
      const added = at(target, { op: 'add', path, value });
      assert.deepEqual(at(added, { op: 'remove', path }), target);
      try {
        jsonPatch(target, value);
      } catch (error) {
        assert.ok(isKind(error, 'InvalidArgument'));
      }
    }),
  );
});

test('apply: laws', () => {
  const object = record.map((value) => withoutNulls(value));
  fc.assert(
    fc.property(object, object, object, (live, first, second) => {
      const once = applyMerge(undefined, first, live);
      assert.deepEqual(applyMerge(first, first, once), once, 'the same again changes nothing');
      assert.deepEqual(applyMerge(undefined, first, undefined), first, 'on nothing, exactly what is applied');
      assert.deepEqual(
        applyMerge(first, second, applyMerge(undefined, first, {})),
        second,
        'nobody else: exactly the new',
      );
    }),
  );
});

test('apply: what others set stays, what was withdrawn goes', () => {
  const before = {
    labels: { a: '1', b: '2' },
    containers: [{ name: 'x', env: [{ name: 'E', value: '1' }] }, { name: 'y' }],
  };
  const live = {
    labels: { a: '1', b: '2', theirs: '3' },
    containers: [
      { name: 'x', env: [{ name: 'E', value: '1' }], policy: 'filled in' },
      { name: 'y' },
      { name: 'theirs' },
    ],
  };
  assert.deepEqual(applyMerge(before, { labels: { a: '9' }, containers: [{ name: 'x', image: 'i' }] }, live), {
    labels: { a: '9', theirs: '3' },
    containers: [{ name: 'x', policy: 'filled in', image: 'i' }, { name: 'theirs' }],
  });
});
