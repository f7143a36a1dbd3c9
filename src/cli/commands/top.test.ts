import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PodMetrics, PodMetricsRequest } from '../../kube/pod-metrics.ts';
import { openFakeCli } from '../fake-cli.ts';

function podMetrics(
  name: string,
  namespace: string,
  containers: readonly (readonly [string, string, string])[],
): PodMetrics {
  const at = '2026-01-01T00:00:00.000Z';
  return {
    kind: 'PodMetrics',
    apiVersion: 'metrics.k8s.io/v1beta1',
    metadata: { name, namespace, creationTimestamp: at },
    timestamp: at,
    window: '10s',
    containers: containers.map(([container, cpu, memory]) => ({ name: container, usage: { cpu, memory } })),
  };
}

const FOUND: readonly PodMetrics[] = [
  podMetrics('web', 'default', [
    ['proxy', '1500000n', '3Mi'],
    ['app', '250m', '20480Ki'],
  ]),
  podMetrics('db', 'default', [['main', '2000001n', '120Mi']]),
];

async function top(words: string, found = FOUND, pods: readonly (readonly [name: string, phase: string])[] = []) {
  const asked: PodMetricsRequest[] = [];
  const cli = await openFakeCli({
    podMetrics: (_op, request) => {
      asked.push(request);
      return Promise.resolve(found);
    },
  });
  for (const [name, phase] of pods) {
    await cli.pod(name);
    const pod = await cli.api.kube.get(cli.api.op, 'pods', { namespace: 'default', name });
    await cli.api.kube.replaceStatus(cli.api.op, 'pods', { ...pod, status: { ...pod.status, phase } });
  }
  const ending = await cli.run(['top', ...words.split(' ')]);
  return { ...ending, out: ending.out.replaceAll(/ +/g, ' '), asked };
}

const HEADER = 'NAME CPU(cores) MEMORY(bytes)\n';
const CASES: readonly (readonly [words: string, out: string])[] = [
  ['pods', `${HEADER}db 3m 120Mi\nweb 252m 23Mi\n`],
  ['pod --sort-by cpu', `${HEADER}web 252m 23Mi\ndb 3m 120Mi\n`],
  ['po --sort-by=memory --no-headers', 'db 3m 120Mi\nweb 252m 23Mi\n'],
  ['pods -c', 'POD NAME CPU(cores) MEMORY(bytes)\ndb main 3m 120Mi\nweb app 250m 20Mi\nweb proxy 2m 3Mi\n'],
  ['pods --sum', `${HEADER}db 3m 120Mi\nweb 252m 23Mi\n 255m 143Mi\n`],
  ['pods -A', 'NAMESPACE NAME CPU(cores) MEMORY(bytes)\ndefault db 3m 120Mi\ndefault web 252m 23Mi\n'],
];

for (const [words, out] of CASES) {
  test(`gantry top ${words}`, async () => {
    const { asked, ...ending } = await top(words);
    assert.deepEqual(ending, { code: 0, out, err: '' });
    assert.deepEqual(asked, [words.includes('-A') ? {} : { namespace: 'default' }]);
  });
}

test('a name, a selector and a namespace are handed on', async () => {
  assert.deepEqual((await top('pod pod/web -n shop')).asked, [{ namespace: 'shop', name: 'web' }]);
  assert.deepEqual((await top('pods -l app=web -A')).asked, [{ labelSelector: 'app=web' }]);
});

test('nothing found is said, and is no error', async () => {
  const { asked, ...ending } = await top('pods -n shop', []);
  assert.deepEqual(asked, [{ namespace: 'shop' }]);
  assert.deepEqual(ending, { code: 0, out: '', err: 'No resources found in shop namespace\n' });
});

for (const [state, pods, code, err] of [
  [
    'not measured yet',
    [
      ['web', 'Running'],
      ['job', 'Succeeded'],
    ],
    1,
    'error: metrics are not available yet: no pod has run long enough to be measured\n',
  ],
  [
    'not begun yet',
    [['web', 'Pending']],
    1,
    'error: metrics are not available yet: no pod has run long enough to be measured\n',
  ],
  [
    'over',
    [
      ['job', 'Succeeded'],
      ['other', 'Failed'],
    ],
    0,
    'No pod runs in default namespace\n',
  ],
] as const) {
  test(`pods that are ${state} are not no pods`, async () => {
    const { asked, ...ending } = await top('pods', [], pods);
    assert.deepEqual(ending, { code, out: '', err });
    assert.equal(asked.length, 1);
  });
}

for (const [words, err] of [
  ['pods --sort-by name', 'error: --sort-by name: it should be cpu or memory\n'],
  ['pod web -l a=b', 'error: a name and a selector cannot be used together\n'],
  ['pod web -A', 'error: a resource cannot be retrieved by name across all namespaces\n'],
] as const) {
  test(`gantry top ${words} is refused`, async () => {
    const { code, out, err: said } = await top(words);
    assert.deepEqual([code, out, said], [1, '', err]);
  });
}
