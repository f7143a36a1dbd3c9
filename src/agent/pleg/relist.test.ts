import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { changedPods, type RuntimeSnapshot, type SnapshotPod } from './relist.ts';

type Plain = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** Pod uid to id to state. */
function snapshot(pods: Plain): RuntimeSnapshot {
  return {
    pods: new Map(
      Object.entries(pods).map(([uid, states]): [string, SnapshotPod] => [
        uid,
        { uid, namespace: 'default', name: uid, states: new Map(Object.entries(states)), alive: false },
      ]),
    ),
  };
}

const plain: fc.Arbitrary<Plain> = fc.dictionary(
  fc.constantFrom('p', 'q', 'r', 's'),
  fc.dictionary(fc.constantFrom('s1', 'c1', 'c2', 'c3'), fc.constantFrom('0', '1', '2', '3'), {
    minKeys: 1,
    noNullPrototype: true,
  }),
  { noNullPrototype: true },
);

test('what has appeared, changed or gone, and nothing else', () => {
  const before = snapshot({ same: { c: '1' }, changed: { c: '1' }, gone: { c: '1' }, lostOne: { c: '1', d: '1' } });
  const after = snapshot({ same: { c: '1' }, changed: { c: '2' }, fresh: { c: '0' }, lostOne: { d: '1' } });
  assert.deepEqual(changedPods(before, after).sort(), ['changed', 'fresh', 'gone', 'lostOne']);
  assert.deepEqual(changedPods(undefined, after).sort(), ['changed', 'fresh', 'lostOne', 'same']);
});

test('a pod is named exactly when something of it differs, each once, whichever look came first', () => {
  fc.assert(
    fc.property(plain, plain, (one, other) => {
      const [before, after] = [snapshot(one), snapshot(other)];
      const changed = changedPods(before, after);
      assert.equal(new Set(changed).size, changed.length);
      const words = (pods: Plain, uid: string): string => JSON.stringify(Object.entries(pods[uid] ?? {}).sort());
      const expected = ['p', 'q', 'r', 's'].filter((uid) => words(one, uid) !== words(other, uid));
      assert.deepEqual([...changed].sort(), expected);
      assert.deepEqual(changedPods(after, before).sort(), [...changed].sort());
      assert.deepEqual(changedPods(before, before), []);
    }),
  );
});

test('nothing is missed by looking seldom: over any looks between, what differs at the end was named', () => {
  fc.assert(
    fc.property(fc.array(plain, { minLength: 2, maxLength: 6 }), (looks) => {
      const snapshots = looks.map(snapshot);
      const named = new Set(snapshots.slice(1).flatMap((after, index) => changedPods(snapshots[index], after)));
      const [first, last] = [snapshots[0], snapshots.at(-1)];
      assert.ok(last !== undefined);
      for (const uid of changedPods(first, last)) assert.ok(named.has(uid), uid);
    }),
  );
});
