import assert from 'node:assert/strict';
import { test } from 'node:test';
import { examplePod } from '../../kube/api/fake-api.ts';
import { openFakeCli, type FakeCli } from '../fake-cli.ts';

/** Pods and a ConfigMap; no agent looks after them, so they are Pending. */
async function room(): Promise<FakeCli> {
  const cli = await openFakeCli();
  await cli.pod('web', { tier: 'front', app: 'shop' });
  await cli.pod('db');
  const config = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'settings' }, data: { a: '1' } } as const;
  await cli.api.kube.create(cli.api.op, 'configmaps', {
    ...config,
    metadata: { ...config.metadata, namespace: 'default' },
  });
  return cli;
}

/** Table columns by single blanks, so that widths do not matter. */
function squeezed(text: string): string {
  return text.replaceAll(/ +/g, ' ');
}

const CASES: readonly (readonly [words: string, out: string])[] = [
  ['get pods', 'NAME READY STATUS RESTARTS AGE\ndb 0/1 Pending 0 0s\nweb 0/1 Pending 0 0s\n'],
  [
    'get pods --show-labels',
    'NAME READY STATUS RESTARTS AGE LABELS\ndb 0/1 Pending 0 0s <none>\nweb 0/1 Pending 0 0s app=shop,tier=front\n',
  ],
  ['get pods --show-labels --no-headers -l app', 'web 0/1 Pending 0 0s app=shop,tier=front\n'],
  ['get all', 'NAME READY STATUS RESTARTS AGE\npod/db 0/1 Pending 0 0s\npod/web 0/1 Pending 0 0s\n'],
  [
    'get cm,pods --field-selector metadata.name!=kube-root-ca.crt',
    'NAME DATA AGE\nconfigmap/settings 1 0s\n\nNAME READY STATUS RESTARTS AGE\npod/db 0/1 Pending 0 0s\npod/web 0/1 Pending 0 0s\n',
  ],
  [
    'get pod/web cm/settings',
    'NAME READY STATUS RESTARTS AGE\npod/web 0/1 Pending 0 0s\n\nNAME DATA AGE\nconfigmap/settings 1 0s\n',
  ],
  ['get pod/web pod/db -o name', 'pod/web\npod/db\n'],
  ['get pod web -o jsonpath={.metadata.name}', 'web'],
  ['get pods -o jsonpath={.items[*].metadata.name}', 'db web'],
  ['get pods -o jsonpath={.items[?(@.metadata.name=="db")].kind}', 'Pod'],
  ['get pods -o jsonpath-as-json={.items[*].metadata.name}', '[\n "db",\n "web"\n]\n'],
  ['get pods -o custom-columns=WHO:.metadata.name,TIER:.metadata.labels.tier', 'WHO TIER\ndb <none>\nweb front\n'],
  ['get pods -o custom-columns=I:{.spec.containers[*].image} --no-headers', 'busybox:1\nbusybox:1\n'],
  ['get pods --sort-by=.metadata.name -o name', 'pod/db\npod/web\n'],
  ['get pods --sort-by={.metadata.labels.tier} -o name', 'pod/db\npod/web\n'],
  ['get pod web db --sort-by metadata.name -o name', 'pod/db\npod/web\n'],
];

for (const [words, out] of CASES) {
  test(`gantry ${words}`, async () => {
    const ending = await (await room()).run(words.split(' '));
    assert.deepEqual({ ...ending, out: squeezed(ending.out) }, { code: 0, out, err: '' });
  });
}

const MISTAKES: readonly (readonly [words: string, err: string])[] = [
  ['get pods -o jsonpath={.items[9]}', 'error: array index out of bounds: index 9, length 2\n'],
  ['get pods -o jsonpath', 'error: -o jsonpath needs a template: -o jsonpath={.metadata.name}\n'],
  ['get pods -o custom-columns=', 'error: -o custom-columns needs columns: -o custom-columns=NAME:.metadata.name\n'],
  [
    'get pods -o custom-columns=NAME',
    'error: -o custom-columns: "NAME" is not of the form HEADER:PATH, such as NAME:.metadata.name\n',
  ],
  ['get pods --sort-by=.spec.nothing', 'error: --sort-by: none of the objects has a field .spec.nothing\n'],
  ['get pods --show-labels -o json', 'error: --show-labels is for tables, and cannot be used with -o json\n'],
  [
    'get pods -o table',
    'error: unable to match a printer for the output format "table", allowed formats are: wide, json, yaml, name, jsonpath=…, jsonpath-as-json=…, custom-columns=…\n',
  ],
];

for (const [words, err] of MISTAKES) {
  test(`gantry ${words}: refused`, async () => {
    assert.deepEqual(await (await room()).run(words.split(' ')), { code: 1, out: '', err });
  });
}

test('sorting goes by what the values are: numbers, quantities, numbers within texts', async () => {
  const cli = await openFakeCli();
  const memory: Record<string, string> = { 'a-10': '512Mi', 'a-9': '1Gi', 'a-1': '2000Ki' };
  for (const [name, limit] of Object.entries(memory)) {
    const containers = [{ name: 'main', image: 'x:1', resources: { limits: { memory: limit } } }];
    await cli.api.kube.create(cli.api.op, 'pods', examplePod(name, { containers }));
  }
  const sorted = async (by: string): Promise<string> =>
    (await cli.run(['get', 'pods', '--sort-by', by, '-o', 'jsonpath={.items[*].metadata.name}'])).out;
  assert.equal(await sorted('.metadata.name'), 'a-1 a-9 a-10');
  assert.equal(await sorted('.spec.containers[0].resources.limits.memory'), 'a-1 a-10 a-9');
});

test('--watch-only says nothing of what is there already', async () => {
  const cli = await room();
  const made: Promise<void>[] = [];
  const ending = cli.follow(['get', 'pods', '--watch-only', '--show-labels'], (out, interrupt) => {
    if (out.includes('late')) interrupt();
  });
  const before = await cli.run(['get', 'pods', '-o', 'name']);
  assert.equal(before.out, 'pod/db\npod/web\n');
  made.push(cli.pod('late', { a: 'b' }));
  await Promise.all(made);
  const { out } = await ending;
  assert.equal(squeezed(out), 'NAME READY STATUS RESTARTS AGE LABELS\nlate 0/1 Pending 0 0s a=b\n');
});

test('-w with columns of its own', async () => {
  const cli = await room();
  const ending = cli.follow(['get', 'pods', '-w', '-o', 'custom-columns=N:.metadata.name'], (out, interrupt) => {
    if (out.includes('web') && !out.includes('late')) void cli.pod('late');
    if (out.includes('late')) interrupt();
  });
  assert.equal((await ending).out, 'N\ndb\nweb\nlate\n');
});
