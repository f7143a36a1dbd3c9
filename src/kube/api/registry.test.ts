import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isKind, type ErrorKind } from '../../lib/errors.ts';
import type { ConfigMap, Event, New, Pod, Secret } from '../objects.ts';
import { statusOfError } from '../client.ts';
import { examplePod, openFakeApi } from './fake-api.ts';

async function rejects(promise: Promise<unknown>, kind: ErrorKind, message: RegExp): Promise<void> {
  await assert.rejects(promise, (error) => {
    assert.ok(isKind(error, kind), String(error));
    assert.match((error as Error).message, message);
    assert.ok(statusOfError(error) !== undefined);
    return true;
  });
}

const WEB = { namespace: 'default', name: 'web' };

function configMap(name: string, data: Record<string, string>, more: Partial<ConfigMap> = {}): New<ConfigMap> {
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace: 'default' }, data, ...more };
}

test('create fills in metadata, defaults, node and status', async () => {
  const { kube, op } = await openFakeApi();
  const pod = await kube.create(op, 'pods', {
    ...examplePod('web'),
    metadata: {
      name: 'web',
      uid: 'mine',
      creationTimestamp: '1999-01-01T00:00:00Z',
      deletionTimestamp: '1999-01-01T00:00:00Z',
    },
    status: { phase: 'Running' },
  });
  assert.match(pod.metadata.uid, /^[0-9a-f-]{36}$/);
  assert.equal(pod.metadata.namespace, 'default');
  assert.equal(pod.metadata.creationTimestamp, '2026-01-01T00:00:00Z');
  assert.equal(pod.metadata.deletionTimestamp, undefined);
  assert.equal(pod.metadata.generation, 1);
  assert.deepEqual(pod.status, { phase: 'Pending' });
  assert.equal(pod.spec.nodeName, 'node-1');
  assert.equal(pod.spec.restartPolicy, 'Always');
  await rejects(kube.create(op, 'pods', examplePod('web')), 'AlreadyExists', /pods "web" already exists/);
});

test('create: names, namespaces, versions, warnings, dry run', async () => {
  const { kube, op } = await openFakeApi();
  const named = await kube.create(op, 'pods', { ...examplePod('x'), metadata: { generateName: 'job-' } });
  assert.match(named.metadata.name, /^job-[a-z0-9]{5}$/);
  const lost = { ...examplePod('x'), metadata: { name: 'x', namespace: 'nowhere' } };
  await rejects(kube.create(op, 'pods', lost), 'NotFound', /namespaces "nowhere" not found/);
  const versioned = { ...examplePod('x'), metadata: { name: 'x', resourceVersion: '1' } };
  await rejects(kube.create(op, 'pods', versioned), 'InvalidArgument', /resourceVersion should not be set/);
  await rejects(
    kube.create(op, 'pods', examplePod('x', { containers: [] })),
    'InvalidArgument',
    /^Pod "x" is invalid: spec\.containers: Required value/,
  );
  const warnings: string[] = [];
  const onWarning = (warning: string): void => void warnings.push(warning);
  await kube.create(op, 'pods', examplePod('dry', { nodeSelector: { a: 'b' } }), { dryRun: true, onWarning });
  assert.deepEqual(warnings, ['spec.nodeSelector: ignored by Gantry: there is one node, and nothing to schedule']);
  await rejects(kube.get(op, 'pods', { namespace: 'default', name: 'dry' }), 'NotFound', /pods "dry" not found/);
  await kube.create(op, 'pods', examplePod('far', { nodeName: 'other' }), { onWarning });
  assert.match(warnings[1] ?? '', /there is no node "other" here/);
});

test('what the caller changes afterwards is not what is stored', async () => {
  const { kube, op } = await openFakeApi();
  const sent = examplePod('web');
  const pod = await kube.create(op, 'pods', sent);
  sent.spec.containers.length = 0;
  pod.spec.containers.length = 0;
  const read = await kube.get(op, 'pods', WEB);
  assert.equal(read.spec.containers.length, 1);
  read.spec.containers.length = 0;
  assert.equal((await kube.list(op, 'pods')).items[0]?.spec.containers.length, 1);
});

test('replace: optimistic concurrency, identity, nothing to do', async () => {
  const { kube, op } = await openFakeApi();
  const first = await kube.create(op, 'configmaps', configMap('c', { a: '1' }));
  const second = await kube.replace(op, 'configmaps', { ...first, data: { a: '2' } });
  assert.ok(Number(second.metadata.resourceVersion) > Number(first.metadata.resourceVersion));
  await rejects(
    kube.replace(op, 'configmaps', { ...first, data: { a: '3' } }),
    'Aborted',
    /the object has been modified/,
  );
  await kube.replace(op, 'configmaps', configMap('c', { a: '4' }));
  const other = { ...configMap('c', {}), metadata: { name: 'c', namespace: 'default', uid: 'other' } };
  await rejects(kube.replace(op, 'configmaps', other), 'Aborted', /Precondition failed: UID/);
  const same = await kube.replace(op, 'configmaps', configMap('c', { a: '4' }));
  assert.equal(
    same.metadata.resourceVersion,
    (await kube.replace(op, 'configmaps', configMap('c', { a: '4' }))).metadata.resourceVersion,
  );
  assert.equal(same.metadata.uid, first.metadata.uid);
  await rejects(kube.replace(op, 'configmaps', configMap('none', {})), 'NotFound', /configmaps "none" not found/);
});

test('a pod changes in its image, labels and tolerations only', async () => {
  const { kube, op } = await openFakeApi();
  const pod = await kube.create(op, 'pods', examplePod('web'));
  const container = pod.spec.containers[0];
  assert.ok(container !== undefined);
  const relabelled = await kube.replace(op, 'pods', { ...pod, metadata: { ...pod.metadata, labels: { a: 'b' } } });
  assert.equal(relabelled.metadata.generation, 1);
  const spec = { ...pod.spec, containers: [{ ...container, image: 'busybox:2' }] };
  const upgraded = await kube.replace(op, 'pods', { ...relabelled, spec });
  assert.equal(upgraded.metadata.generation, 2);
  const changed = { ...upgraded, spec: { ...spec, hostNetwork: true, containers: [{ ...container, args: ['x'] }] } };
  await rejects(
    kube.replace(op, 'pods', changed),
    'InvalidArgument',
    /spec\.hostNetwork: Forbidden: may not change once the pod exists/,
  );
  await rejects(kube.replace(op, 'pods', changed), 'InvalidArgument', /spec\.containers\[0\]\.args: Forbidden/);
});

test('status is written apart from the rest', async () => {
  const { kube, op } = await openFakeApi();
  const pod = await kube.create(op, 'pods', examplePod('web'));
  const status = await kube.replaceStatus(op, 'pods', {
    ...pod,
    metadata: { ...pod.metadata, labels: { not: 'this' } },
    spec: { containers: [] },
    status: { phase: 'Running', podIP: '10.0.0.1' },
  });
  assert.deepEqual(
    [status.status, status.spec, status.metadata.labels],
    [{ phase: 'Running', podIP: '10.0.0.1' }, pod.spec, {}],
  );
  const replaced = await kube.replace(op, 'pods', {
    ...pod,
    metadata: { name: 'web', namespace: 'default' },
    status: { phase: 'Failed' },
  });
  assert.equal(replaced.status?.phase, 'Running');
  const stranger = {
    ...pod,
    metadata: { ...pod.metadata, uid: 'older', resourceVersion: '' },
    status: { phase: 'Failed' },
  };
  await rejects(kube.replaceStatus(op, 'pods', stranger), 'Aborted', /UID/);
  const patched = await kube.patch(
    op,
    'pods',
    WEB,
    { type: 'merge', body: { status: { phase: 'Succeeded' } } },
    { subresource: 'status' },
  );
  assert.deepEqual(patched.status, { phase: 'Succeeded', podIP: '10.0.0.1' });
});

test('the end of a pod: marked, brought nearer, never put off, gone on the agent’s word', async () => {
  const { kube, op, clock } = await openFakeApi();
  const { metadata } = await kube.create(op, 'pods', examplePod('web', { terminationGracePeriodSeconds: 60 }));
  const graceOf = (pod: Pod): unknown[] => [pod.metadata.deletionGracePeriodSeconds, pod.metadata.deletionTimestamp];
  const del = (gracePeriodSeconds?: number, uid?: string): Promise<Pod> =>
    kube.delete(op, 'pods', WEB, {
      ...(gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds }),
      ...(uid === undefined ? {} : { preconditions: { uid } }),
    });
  assert.deepEqual(graceOf(await kube.delete(op, 'pods', WEB, { dryRun: true })), [60, '2026-01-01T00:01:00Z']);
  assert.deepEqual(graceOf(await kube.get(op, 'pods', WEB)), [undefined, undefined]);
  assert.deepEqual(graceOf(await del()), [60, '2026-01-01T00:01:00Z']);
  await clock.advance(10_000);
  assert.deepEqual(graceOf(await del(300)), [60, '2026-01-01T00:01:00Z'], 'never longer');
  assert.deepEqual(graceOf(await del(55)), [60, '2026-01-01T00:01:00Z'], 'would end later');
  assert.deepEqual(graceOf(await del(20)), [20, '2026-01-01T00:00:30Z'], 'nearer');
  assert.deepEqual(graceOf(await del()), [20, '2026-01-01T00:00:30Z'], 'a plain delete again');
  await clock.advance(30_000);
  assert.deepEqual(graceOf(await del(0)), [0, '2026-01-01T00:00:30Z'], 'at once, but still there');
  await rejects(del(0, 'another'), 'Aborted', /Precondition failed/);
  await del(0, metadata.uid);
  await rejects(kube.get(op, 'pods', WEB), 'NotFound', /not found/);
  await rejects(del(), 'NotFound', /not found/);
  await rejects(kube.delete(op, 'pods', WEB, { gracePeriodSeconds: -1 }), 'InvalidArgument', /at least 0/);
});

test('grace 0 with a uid does not remove a pod whose end has not begun; one of another node goes at once', async () => {
  const { kube, op } = await openFakeApi();
  const { metadata } = await kube.create(op, 'pods', examplePod('web'));
  const marked = await kube.delete(op, 'pods', WEB, { gracePeriodSeconds: 0, preconditions: { uid: metadata.uid } });
  assert.equal(marked.metadata.deletionGracePeriodSeconds, 0);
  assert.equal((await kube.list(op, 'pods')).items.length, 1);
  await kube.create(op, 'pods', examplePod('far', { nodeName: 'other' }));
  await kube.delete(op, 'pods', { namespace: 'default', name: 'far' });
  assert.equal((await kube.list(op, 'pods')).items.length, 1);
});

test('secrets: plain text is folded in; immutable ones and types stay', async () => {
  const { kube, op } = await openFakeApi();
  const base: New<Secret> = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 's', namespace: 'default' } };
  const secret = await kube.create(op, 'secrets', { ...base, stringData: { a: 'x' }, data: { b: 'eQ==' } });
  assert.deepEqual([secret.data, secret.type, 'stringData' in secret], [{ a: 'eA==', b: 'eQ==' }, 'Opaque', false]);
  await rejects(
    kube.replace(op, 'secrets', { ...secret, type: 'other' }),
    'InvalidArgument',
    /type: Invalid value: "other": field is immutable/,
  );
  await kube.replace(op, 'secrets', { ...secret, immutable: true });
  const key = { namespace: 'default', name: 's' };
  await rejects(
    kube.patch(op, 'secrets', key, { type: 'merge', body: { data: { a: null } } }),
    'InvalidArgument',
    /data: Forbidden/,
  );
  await rejects(
    kube.patch(op, 'secrets', key, { type: 'merge', body: { immutable: false } }),
    'InvalidArgument',
    /immutable: Forbidden/,
  );
  await kube.patch(op, 'secrets', key, { type: 'merge', body: { metadata: { labels: { ok: 'yes' } } } });
});

test('apply creates, changes only what differs, and withdraws what it applied before', async () => {
  const { kube, op } = await openFakeApi();
  const key = { namespace: 'default', name: 'c' };
  const apply = (body: unknown): Promise<ConfigMap> =>
    kube.patch(op, 'configmaps', key, { type: 'apply', fieldManager: 'm', body });
  const first = await apply(configMap('c', { a: '1', b: '2' }));
  assert.deepEqual(first.data, { a: '1', b: '2' });
  assert.equal(
    (await apply(configMap('c', { a: '1', b: '2' }))).metadata.resourceVersion,
    first.metadata.resourceVersion,
  );
  await kube.patch(op, 'configmaps', key, { type: 'merge', body: { data: { theirs: '3' } } });
  assert.deepEqual((await apply(configMap('c', { a: '9' }))).data, { a: '9', theirs: '3' });
  await rejects(
    apply({ ...configMap('c', {}), dta: {} }),
    'InvalidArgument',
    /dta: unknown field "dta" \(did you mean "data"\?\)/,
  );
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 's' } };
  const applySecret = (body: unknown): Promise<Secret> =>
    kube.patch(op, 'secrets', { namespace: 'default', name: 's' }, { type: 'apply', fieldManager: 'm', body });
  await applySecret({ ...secret, stringData: { a: 'x', b: 'y' } });
  assert.deepEqual((await applySecret({ ...secret, stringData: { a: 'x' } })).data, { a: 'eA==' });
});

test('applying a pod again leaves what the API filled in alone', async () => {
  const { kube, op } = await openFakeApi();
  const apply = (image: string): Promise<Pod> =>
    kube.patch(op, 'pods', WEB, {
      type: 'apply',
      fieldManager: 'm',
      body: { ...examplePod('web'), spec: { containers: [{ name: 'main', image }] } },
    });
  const first = await apply('busybox:1');
  assert.equal(first.spec.containers[0]?.imagePullPolicy, 'IfNotPresent');
  const second = await apply('busybox:latest');
  assert.equal(second.spec.containers[0]?.image, 'busybox:latest');
  assert.equal(second.spec.containers[0].imagePullPolicy, 'IfNotPresent');
  assert.equal(second.spec.nodeName, 'node-1');
});

test('patches that lead nowhere good are refused', async () => {
  const { kube, op } = await openFakeApi();
  await kube.create(op, 'pods', examplePod('web'));
  await rejects(
    kube.patch(op, 'pods', WEB, { type: 'merge', body: { metadata: { name: 'other' } } }),
    'InvalidArgument',
    /does not match the name/,
  );
  await rejects(
    kube.patch(op, 'pods', WEB, { type: 'merge', body: { kind: 'Node' } }),
    'InvalidArgument',
    /the object is a "Node"/,
  );
  await rejects(
    kube.patch(op, 'pods', WEB, { type: 'merge', body: 'x' }),
    'InvalidArgument',
    /must be a Kubernetes object/,
  );
  await rejects(
    kube.patch(op, 'pods', WEB, { type: 'merge', body: { metadata: { resourceVersion: '1' } } }),
    'Aborted',
    /has been modified/,
  );
  await rejects(
    kube.patch(op, 'pods', WEB, { type: 'json', body: [{ op: 'test', path: '/kind', value: 'x' }] }),
    'InvalidArgument',
    /test of \/kind failed/,
  );
  await rejects(
    kube.patch(op, 'pods', { namespace: 'default', name: 'x' }, { type: 'merge', body: {} }),
    'NotFound',
    /"x" not found/,
  );
});

test('selectors', async () => {
  const { kube, op } = await openFakeApi();
  await kube.create(op, 'pods', examplePod('a', {}, { app: 'web', tier: 'front' }));
  await kube.create(op, 'pods', examplePod('b', {}, { app: 'web' }));
  await kube.create(op, 'pods', examplePod('c', { nodeName: 'other' }, { n: '5' }));
  const names = async (labelSelector: string, fieldSelector = ''): Promise<string> =>
    (await kube.list(op, 'pods', { labelSelector, fieldSelector })).items.map((pod) => pod.metadata.name).join('');
  const expected: Record<string, string> = {
    '': 'abc',
    'app=web': 'ab',
    'app==web,tier=front': 'a',
    'app!=web': 'c',
    'app in (web, x)': 'ab',
    'app notin (web)': 'c',
    tier: 'a',
    '!tier': 'bc',
    'n>4': 'c',
    'n<4': '',
  };
  for (const [selector, found] of Object.entries(expected)) assert.equal(await names(selector), found, selector);
  assert.equal(await names('', 'spec.nodeName=node-1'), 'ab');
  assert.equal(await names('app', 'metadata.name!=a,status.phase=Pending'), 'b');
  await rejects(names('a b c'), 'InvalidArgument', /unable to parse requirement/);
  await rejects(names('', 'spec.x=y'), 'InvalidArgument', /field label not supported: spec\.x/);
});

test('a namespace takes its content along, pods by their agent’s word', async () => {
  const { kube, op, clock } = await openFakeApi();
  await kube.create(op, 'namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'team' } });
  await kube.create(op, 'configmaps', { ...configMap('c', {}), metadata: { name: 'c', namespace: 'team' } });
  const pod = await kube.create(op, 'pods', { ...examplePod('web'), metadata: { name: 'web', namespace: 'team' } });
  await kube.delete(op, 'namespaces', { name: 'team' });
  await clock.advance(0);
  assert.equal((await kube.get(op, 'namespaces', { name: 'team' })).status?.phase, 'Terminating');
  assert.equal((await kube.list(op, 'configmaps', { namespace: 'team' })).items.length, 0);
  assert.notEqual((await kube.get(op, 'pods', pod.metadata)).metadata.deletionTimestamp, undefined);
  const late = { ...configMap('d', {}), metadata: { name: 'd', namespace: 'team' } };
  await rejects(kube.create(op, 'configmaps', late), 'PermissionDenied', /is being terminated/);
  await kube.delete(op, 'pods', pod.metadata, { gracePeriodSeconds: 0, preconditions: { uid: pod.metadata.uid } });
  await clock.advance(0);
  await rejects(kube.get(op, 'namespaces', { name: 'team' }), 'NotFound', /not found/);
  await rejects(kube.delete(op, 'namespaces', { name: 'default' }), 'PermissionDenied', /may not be deleted/);
});

test('events go an hour after they were last seen', async () => {
  const { kube, op, clock } = await openFakeApi();
  const event = (name: string): New<Event> => ({
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name, namespace: 'default' },
    involvedObject: { kind: 'Pod', name: 'web', namespace: 'default' },
    lastTimestamp: new Date(clock.wallMs()).toISOString(),
  });
  await kube.create(op, 'events', event('old'));
  await kube.create(op, 'events', event('renewed'));
  await clock.advance(50 * 60_000);
  await kube.patch(op, 'events', { namespace: 'default', name: 'renewed' }, { type: 'merge', body: event('renewed') });
  await clock.advance(12 * 60_000);
  assert.deepEqual(
    (await kube.list(op, 'events')).items.map(({ metadata }) => metadata.name),
    ['renewed'],
  );
});
