import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { ConfigMap, Container, Secret } from '../../kube/objects.ts';
import { testPod } from '../pods/test-pod.ts';
import { buildEnv, envReferences, References, type PodFacts } from './env.ts';
import { expand } from './expand.ts';

const facts: PodFacts = {
  nodeName: 'here',
  hostIps: ['192.0.2.1'],
  podIps: ['10.0.0.7'],
  allocatable: { cpuMilli: 2000, memoryBytes: 1 << 30 },
};

const configMap = { data: { MODE: 'fast', 'bad name': 'x' }, binaryData: { zero: 'AAEC' } } as unknown as ConfigMap;
const secret = { data: { token: Buffer.from('s3cret').toString('base64') } } as unknown as Secret;
const references = new References(
  new Map<string, ConfigMap | Secret>([
    ['configmaps/settings', configMap],
    ['secrets/key', secret],
  ]),
);

function envOf(container: Partial<Container>): Record<string, string> {
  const built = buildEnv({ name: 'c', ...container }, testPod(), facts, references);
  return Object.fromEntries([...built.variables].map(([name, value]) => [name, value.toString()]));
}

await test('envFrom comes first, env wins, $(NAME) sees what came before', () => {
  assert.deepEqual(
    envOf({
      envFrom: [{ configMapRef: { name: 'settings' }, prefix: 'P_' }],
      env: [
        { name: 'A', value: '1' },
        { name: 'B', value: '$(A)-$(P_MODE)-$(NONE)-$$(A)' },
        { name: 'P_MODE', value: 'slow' },
        { name: 'T', valueFrom: { secretKeyRef: { name: 'key', key: 'token' } } },
        { name: 'IP', valueFrom: { fieldRef: { fieldPath: 'status.podIP' } } },
        { name: 'N', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } },
        { name: 'CPU', valueFrom: { resourceFieldRef: { resource: 'limits.cpu' } } },
      ],
    }),
    { P_MODE: 'slow', A: '1', B: '1-fast-$(NONE)-$(A)', T: 's3cret', IP: '10.0.0.7', N: 'web', CPU: '2' },
  );
});

await test('what cannot be a name is left out and named', () => {
  const built = buildEnv(
    { name: 'c', envFrom: [{ configMapRef: { name: 'settings' } }] },
    testPod(),
    facts,
    references,
  );
  assert.deepEqual(built.skipped, ['bad name']);
});

await test('binaryData is for files, not for variables', () => {
  assert.deepEqual(envOf({ envFrom: [{ configMapRef: { name: 'settings' } }] }), { MODE: 'fast' });
  assert.throws(
    () => envOf({ env: [{ name: 'X', valueFrom: { configMapKeyRef: { name: 'settings', key: 'zero' } } }] }),
    /couldn't find key zero in ConfigMap default\/settings/,
  );
  assert.deepEqual(references.data({ kind: 'configmaps', name: 'settings' })?.get('zero'), Buffer.from([0, 1, 2]));
});

await test('missing references fail unless they are optional', () => {
  const ref = (optional?: boolean): Partial<Container> => ({
    env: [{ name: 'X', valueFrom: { configMapKeyRef: { name: 'none', key: 'k', optional } } }],
  });
  assert.throws(() => envOf(ref()), /configmap "none" not found/);
  assert.deepEqual(envOf(ref(true)), {});
  assert.throws(
    () => envOf({ env: [{ name: 'X', valueFrom: { secretKeyRef: { name: 'key', key: 'nope' } } }] }),
    /couldn't find key nope in Secret default\/key/,
  );
});

await test('every reference is found once', () => {
  assert.deepEqual(
    envReferences({
      name: 'c',
      envFrom: [{ configMapRef: { name: 'a' } }],
      env: [
        { name: 'X', valueFrom: { configMapKeyRef: { name: 'a', key: 'k' } } },
        { name: 'Y', valueFrom: { secretKeyRef: { name: 'b', key: 'k' } } },
      ],
    }),
    [
      { kind: 'configmaps', name: 'a' },
      { kind: 'secrets', name: 'b' },
    ],
  );
});

await test('a text without a dollar sign is never changed', () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      const plain = text.replaceAll('$', '');
      assert.equal(
        expand(plain, () => 'x'),
        plain,
      );
    }),
  );
});
