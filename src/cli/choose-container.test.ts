import assert from 'node:assert/strict';
import { test } from 'node:test';
import { examplePod } from '../kube/api/fake-api.ts';
import type { Pod } from '../kube/objects.ts';
import { defaultContainer } from './choose-container.ts';

function podOf(names: readonly string[], annotations: Record<string, string> = {}): Pod {
  const pod = examplePod('web') as Pod;
  return {
    ...pod,
    metadata: { ...pod.metadata, annotations },
    spec: { ...pod.spec, containers: names.map((name) => ({ name, image: 'i' })) },
  };
}

await test('one container needs no words, of several the first is taken and told of', () => {
  assert.deepEqual(defaultContainer(podOf(['a'])), { name: 'a' });
  assert.deepEqual(defaultContainer(podOf(['a', 'b'])), {
    name: 'a',
    notice: 'Defaulted container "a" out of: a, b',
  });
});

await test('the annotation says which one, if it names one that is there', () => {
  const key = 'kubectl.kubernetes.io/default-container';
  assert.deepEqual(defaultContainer(podOf(['a', 'b'], { [key]: 'b' })), { name: 'b' });
  assert.equal(defaultContainer(podOf(['a', 'b'], { [key]: 'gone' }))?.name, 'a');
});
