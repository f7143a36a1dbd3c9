import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PodSpec } from '../../kube/objects.ts';
import { testPod } from '../pods/test-pod.ts';
import { rejectionOf } from './admit-pod.ts';

const profile = (type: string): Pick<NonNullable<PodSpec['securityContext']>, 'appArmorProfile'> => ({
  appArmorProfile: { type },
});
const pod = (ofPod: object, ofContainer: object = {}): PodSpec =>
  testPod({ securityContext: ofPod, containers: [{ name: 'a', image: 'i', securityContext: ofContainer }] }).spec;

const table: [spec: PodSpec, needsAppArmor: boolean][] = [
  [pod({}), false],
  [pod(profile('Unconfined')), false],
  [pod(profile('RuntimeDefault')), true],
  [pod(profile('Localhost'), profile('Unconfined')), false],
  [pod(profile('Unconfined'), profile('Localhost')), true],
];
for (const [spec, needsAppArmor] of table) {
  await test(`AppArmor: ${JSON.stringify([spec.securityContext, spec.containers[0]?.securityContext])}`, () => {
    assert.equal(rejectionOf(spec, { appArmor: true, hugePages: new Map() }), undefined);
    const { reason, message } = rejectionOf(spec, { appArmor: false, hugePages: new Map() }) ?? {};
    assert.equal(reason, needsAppArmor ? 'AppArmor' : undefined);
    if (needsAppArmor) assert.equal(message, 'Cannot enforce AppArmor: AppArmor is not enabled on the host');
  });
}

await test('huge pages: no more than the machine has set aside', () => {
  const limits = { memory: '64Mi', 'hugepages-2Mi': '4Mi' };
  const { spec } = testPod({
    containers: [1, 2].map((n) => ({ name: `c${String(n)}`, image: 'i', resources: { limits } })),
  });
  const of = (bytes: number): string | undefined =>
    rejectionOf(spec, { appArmor: false, hugePages: new Map([[2 << 20, bytes]]) })?.message;
  assert.equal(of(8 << 20), undefined);
  assert.equal(of(6 << 20), "Node didn't have enough resource: hugepages-2Mi, requested: 8388608, capacity: 6291456");
  assert.equal(rejectionOf(spec, { appArmor: false, hugePages: new Map() })?.reason, 'OutOfHugePages');
});
