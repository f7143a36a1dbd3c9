import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stuckFindings, type StuckWork } from './stuck-work.ts';

const work: StuckWork = {
  of: 'container',
  id: 'a'.repeat(64),
  name: 'container main of pod default/web',
  events: ['container-cleanup', 'container-removal'],
  attempts: 4,
  lastError: 'runc delete: EOF',
  holdUps: '; still held: task a',
};

test('a cleanup that goes on failing is blocked, with what it waits for', () => {
  assert.deepEqual(stuckFindings([work]), [
    {
      finding: {
        problem: 'blocked',
        kind: 'container',
        key: work.id,
        message:
          'container main of pod default/web: container-cleanup, container-removal not finished after 4 attempts, and is tried again by itself: runc delete: EOF; still held: task a',
      },
    },
  ]);
});

test('one that runs at this moment has no name and is told of all the same', () => {
  const [only] = stuckFindings([{ ...work, of: 'sandbox', events: [], attempts: 2, holdUps: '' }]);
  assert.equal(only?.finding.kind, 'sandbox');
  assert.match(only.finding.message, /: cleanup not finished after 2 attempts, .*: runc delete: EOF$/);
});

test('what has not failed, or once, is no finding', () => {
  for (const attempts of [0, 1]) assert.deepEqual(stuckFindings([{ ...work, attempts }]), []);
});
