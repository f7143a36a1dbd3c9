import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pod } from '../objects.ts';
import { renderIssue } from '../validate/issue.ts';
import { examplePod } from './fake-api.ts';
import { immutableFieldIssues } from './pod-strategy.ts';

type Container = Pod['spec']['containers'][number];

function podOf(...containers: readonly (Partial<Container> & { readonly name: string })[]): Pod {
  const pod = examplePod('web') as Pod;
  return {
    ...pod,
    spec: { ...pod.spec, containers: containers.map((each): Container => ({ image: 'busybox:1', ...each })) },
  };
}

const END = 'delete the pod and create it anew';
const SET = `containers may not come, go or be renamed once the pod exists: ${END}`;
const FIELD = `may not change once the pod exists (only \`spec.containers[*].image\` and additions to \`spec.tolerations\` may): ${END}`;

const cases: readonly [title: string, before: Pod, after: Pod, issues: readonly string[]][] = [
  ['an image', podOf({ name: 'a' }), podOf({ name: 'a', image: 'busybox:2' }), []],
  [
    'a container that is renamed',
    podOf({ name: 'a' }),
    podOf({ name: 'b' }),
    [`spec.containers[0].name: Forbidden: "a" is gone, "b" is new: ${SET}`],
  ],
  [
    'one that is renamed and has another image',
    podOf({ name: 'a' }),
    podOf({ name: 'b', image: 'busybox:2' }),
    [`spec.containers[0].name: Forbidden: "a" is gone, "b" is new: ${SET}`],
  ],
  [
    'one of two that is renamed, and comes last then',
    podOf({ name: 'a' }, { name: 'b', image: 'other:1' }),
    podOf({ name: 'b', image: 'other:1' }, { name: 'c' }),
    [`spec.containers[1].name: Forbidden: "a" is gone, "c" is new: ${SET}`],
  ],
  [
    'one that is taken away, and a field of the other',
    podOf({ name: 'a' }, { name: 'b' }),
    podOf({ name: 'b', args: ['x'] }),
    [`spec.containers: Forbidden: "a" is gone: ${SET}`, `spec.containers[0].args: Forbidden: ${FIELD}`],
  ],
  [
    'one that is added',
    podOf({ name: 'a' }),
    podOf({ name: 'a' }, { name: 'b' }),
    [`spec.containers[1].name: Forbidden: "b" is new: ${SET}`],
  ],
  [
    'another order',
    podOf({ name: 'a' }, { name: 'b' }),
    podOf({ name: 'b' }, { name: 'a' }),
    [`spec.containers: Forbidden: the order of the containers ${FIELD}`],
  ],
];

for (const [title, before, after, issues] of cases) {
  test(`what of a pod may not change is named by what has changed: ${title}`, () => {
    assert.deepEqual(immutableFieldIssues(before, after).map(renderIssue), issues);
  });
}
