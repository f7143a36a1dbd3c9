import assert from 'node:assert/strict';
import { test } from 'node:test';
import { examplePod } from '../../kube/api/fake-api.ts';
import type { Pod } from '../../kube/objects.ts';
import { verb } from './apply.ts';

await test('a status that was written meanwhile does not make an apply a change', () => {
  const made = examplePod('web') as Pod;
  const before: Pod = { ...made, metadata: { ...made.metadata, resourceVersion: '1' }, status: { phase: 'Pending' } };
  const later: Pod = { ...made, metadata: { ...made.metadata, resourceVersion: '2' }, status: { phase: 'Running' } };
  assert.equal(verb(undefined, later), 'created');
  assert.equal(verb(before, later), 'unchanged');
  const labelled: Pod = { ...later, metadata: { ...later.metadata, labels: { a: 'b' } } };
  assert.equal(verb(before, labelled), 'configured');
});
