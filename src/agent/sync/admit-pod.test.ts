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
    assert.equal(rejectionOf(spec, { appArmor: true }), undefined);
    const { reason, message } = rejectionOf(spec, { appArmor: false }) ?? {};
    assert.equal(reason, needsAppArmor ? 'AppArmor' : undefined);
    if (needsAppArmor) assert.equal(message, 'Cannot enforce AppArmor: AppArmor is not enabled on the host');
  });
}
