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
  allocatable: { cpuMilli: 2000, memoryBytes: 1 << 30, diskBytes: 10 * 2 ** 30 },
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

await test('resources as numbers: the limit, the request, what the machine has; divided and rounded up', () => {
  const resources = { limits: { cpu: '1500m', memory: '100Mi' }, requests: { cpu: '250m', memory: '1' } };
  const cases: [resource: string, divisor: string | undefined, resources: object, value: string][] = [
    ['limits.cpu', undefined, resources, '2'],
    ['limits.cpu', '0', resources, '2'],
    ['limits.cpu', '1m', resources, '1500'],
    ['requests.cpu', '1m', resources, '250'],
    ['requests.cpu', undefined, resources, '1'],
    ['limits.memory', '1Mi', resources, '100'],
    ['limits.memory', '1M', resources, '105'],
    ['requests.memory', '1Gi', resources, '1'],
    ['limits.memory', undefined, {}, String(1 << 30)],
    ['limits.memory', '1Mi', { limits: { memory: '0' } }, '1024'],
    ['requests.memory', undefined, {}, '0'],
    ['limits.ephemeral-storage', '1Gi', resources, '10'],
    ['requests.ephemeral-storage', undefined, resources, '0'],
  ];
  for (const [resource, divisor, given, value] of cases) {
    const built = envOf({
      resources: given,
      env: [{ name: 'X', valueFrom: { resourceFieldRef: { resource, divisor } } }],
    });
    assert.deepEqual(built, { X: value }, `${resource} ${divisor ?? ''}`);
  }
});

await test('resources of another container of the pod', () => {
  const of = (containerName: string): Record<string, string> => {
    const container: Container = {
      name: 'c',
      env: [{ name: 'X', valueFrom: { resourceFieldRef: { containerName, resource: 'limits.cpu' } } }],
    };
    const other: Container = { name: 'other', resources: { limits: { cpu: '7' } } };
    const built = buildEnv(container, testPod({ containers: [container, other] }), facts, references);
    return Object.fromEntries([...built.variables].map(([name, value]) => [name, value.toString()]));
  };
  assert.deepEqual(of('other'), { X: '7' });
  assert.deepEqual(of(''), { X: '2' });
  assert.throws(() => of('nobody'), /container nobody not found/);
});

await test('the name of the service account is what the pod says, under its old name too', () => {
  const of = (spec: object): string | undefined => {
    const env = [{ name: 'X', valueFrom: { fieldRef: { fieldPath: 'spec.serviceAccountName' } } }];
    const container: Container = { name: 'c', env };
    const pod = testPod({ containers: [container], ...spec });
    return buildEnv(container, pod, facts, references).variables.get('X')?.toString();
  };
  assert.equal(of({ serviceAccountName: 'a' }), 'a');
  assert.equal(of({ serviceAccount: 'b' }), 'b');
  assert.equal(of({}), '');
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
