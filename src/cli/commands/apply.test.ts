import assert from 'node:assert/strict';
import { test } from 'node:test';
import { examplePod } from '../../kube/api/fake-api.ts';
import type { Pod } from '../../kube/objects.ts';
import { openFakeCli } from '../fake-cli.ts';
import { verb } from './apply.ts';

test('a status that was written meanwhile does not make an apply a change', () => {
  const made = examplePod('web') as Pod;
  const before: Pod = { ...made, metadata: { ...made.metadata, resourceVersion: '1' }, status: { phase: 'Pending' } };
  const later: Pod = { ...made, metadata: { ...made.metadata, resourceVersion: '2' }, status: { phase: 'Running' } };
  const outcome = { created: false, unchanged: false };
  assert.equal(verb(before, later, outcome), 'unchanged');
  const labelled: Pod = { ...later, metadata: { ...later.metadata, labels: { a: 'b' } } };
  assert.equal(verb(before, labelled, outcome), 'configured');
});

test('who created it is what the API says, and not what was there a moment before', () => {
  const pod = examplePod('web') as Pod;
  assert.equal(verb(undefined, pod, { created: true, unchanged: false }), 'created');
  assert.equal(verb(pod, pod, { created: true, unchanged: false }), 'created', 'what was there has gone meanwhile');
  assert.equal(verb(undefined, pod, { created: false, unchanged: true }), 'unchanged', 'somebody was quicker');
  assert.equal(
    verb(undefined, pod, { created: false, unchanged: false }),
    'configured',
    'quicker, with other contents',
  );
});

test('of several who apply the same new pod at once, one has created it and the others have changed nothing', async () => {
  const cli = await openFakeCli();
  const manifest = JSON.stringify(examplePod('web'));
  const endings = await Promise.all(Array.from({ length: 4 }, () => cli.run(['apply', '-f', '-'], manifest)));
  assert.deepEqual(
    endings.map(({ code, err }) => [code, err]),
    endings.map(() => [0, '']),
  );
  const words = endings.map(({ out }) => out.trim().split(' ')[1]);
  assert.deepEqual(words.toSorted(), ['created', 'unchanged', 'unchanged', 'unchanged']);
});

test('an apply of a pod that is being deleted does not look as if it were kept', async () => {
  const cli = await openFakeCli();
  const manifest = JSON.stringify(examplePod('web', { nodeName: 'node-1' }));
  await cli.run(['apply', '-f', '-'], manifest);
  await cli.run(['delete', 'pod', 'web', '--wait=false']);
  const { code, out, err } = await cli.run(['apply', '-f', '-'], manifest);
  assert.deepEqual([code, out], [0, 'pod/web unchanged\n']);
  assert.equal(err, 'Warning: pod/web is being deleted, which this does not undo: apply it again when it is gone\n');
});
