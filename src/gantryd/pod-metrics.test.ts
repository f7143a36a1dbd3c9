import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ContainerStats, ListPodSandboxStatsResponse, PodSandboxStats } from '../cri/gen/api.ts';
import { examplePod, openFakeApi, type FakeApi } from '../kube/api/fake-api.ts';
import type { PodMetricsRequest } from '../kube/pod-metrics.ts';
import { readPodMetrics } from './pod-metrics.ts';

const AT_NS = 1_800_000_000_000_000_000n;

function containerOf(name: string, nanoCores: bigint | undefined, bytes = 4096n): ContainerStats {
  return ContainerStats.fromPartial({
    attributes: { metadata: { name } },
    cpu: {
      timestamp: AT_NS,
      usageCoreNanoSeconds: { value: 1n },
      ...(nanoCores === undefined ? {} : { usageNanoCores: { value: nanoCores } }),
    },
    memory: { timestamp: AT_NS, workingSetBytes: { value: bytes } },
  });
}

async function podWith(api: FakeApi, name: string, containers: ContainerStats[]): Promise<PodSandboxStats> {
  const pod = await api.kube.create(api.op, 'pods', examplePod(name, {}, { app: name }));
  return PodSandboxStats.fromPartial({
    attributes: { id: `sandbox-of-${name}`, metadata: { name, namespace: 'default', uid: pod.metadata.uid } },
    linux: { containers },
  });
}

function read(api: FakeApi, stats: PodSandboxStats[], request: PodMetricsRequest) {
  const listPodSandboxStats = () => Promise.resolve(ListPodSandboxStatsResponse.fromPartial({ stats }));
  return readPodMetrics(api.op, { kube: api.kube, runtime: { listPodSandboxStats } }, request);
}

test('a pod is told with each of its containers that run', async () => {
  const api = await openFakeApi();
  const ended = ContainerStats.fromPartial({ attributes: { metadata: { name: 'init' } } });
  const web = await podWith(api, 'web', [containerOf('a', 250_000_000n), containerOf('b', 0n, 1_048_576n), ended]);
  assert.deepEqual(await read(api, [web], { namespace: 'default' }), [
    {
      kind: 'PodMetrics',
      apiVersion: 'metrics.k8s.io/v1beta1',
      metadata: {
        name: 'web',
        namespace: 'default',
        labels: { app: 'web' },
        creationTimestamp: '2027-01-15T08:00:00.000Z',
      },
      timestamp: '2027-01-15T08:00:00.000Z',
      window: '10s',
      containers: [
        { name: 'a', usage: { cpu: '250000000n', memory: '4Ki' } },
        { name: 'b', usage: { cpu: '0n', memory: '1024Ki' } },
      ],
    },
  ]);
  api.close();
});

test('what does not run, and what has no rate yet, is left out; by its name it is not found', async () => {
  const api = await openFakeApi();
  const young = await podWith(api, 'young', [containerOf('a', 1n), containerOf('b', undefined)]);
  const empty = await podWith(api, 'empty', []);
  await api.kube.create(api.op, 'pods', examplePod('pending'));
  assert.deepEqual(await read(api, [young, empty], {}), []);
  for (const name of ['young', 'empty', 'pending', 'nobody']) {
    await assert.rejects(read(api, [young, empty], { namespace: 'default', name }), { kind: 'NotFound' });
  }
  api.close();
});

test('labels choose, and the sandbox of an earlier pod of the name does not count', async () => {
  const api = await openFakeApi();
  const [web, db] = [
    await podWith(api, 'web', [containerOf('a', 1n)]),
    await podWith(api, 'db', [containerOf('a', 1n)]),
  ];
  const stranger = PodSandboxStats.fromPartial({
    attributes: { metadata: { name: 'web', namespace: 'default', uid: 'another' } },
    linux: { containers: [containerOf('a', 9n)] },
  });
  const found = await read(api, [db, web, stranger], { labelSelector: 'app=web' });
  assert.deepEqual(
    found.map(({ metadata, containers }) => [metadata.name, containers[0]?.usage.cpu]),
    [['web', '1n']],
  );
  api.close();
});
