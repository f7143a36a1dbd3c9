import assert from 'node:assert/strict';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Gantryd, op, podOf } from '../../support/gantryd.ts';
import { LeakCheck } from '../../support/leak-check.ts';

const skip = process.getuid?.() !== 0 && 'needs root';

const GOOD = JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'innocent' }, data: { a: 'b' } });

function pod(spec: Record<string, unknown>): string {
  return JSON.stringify(podOf('bad', [{}], spec));
}

const CONTAINER = { name: 'main', image: 'x' };

const cases: readonly (readonly [title: string, manifest: string | Buffer, words: readonly RegExp[]])[] = [
  ['not YAML', 'kind: Pod\n  apiVersion: : [\n', [/yaml:1: not valid YAML/]],
  ['a kind that there is not', 'apiVersion: v1\nkind: Pot\nmetadata: {name: x}\n', [/Pot/]],
  ['another group', 'apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n', [/Deployment/]],
  ['no kind', 'apiVersion: v1\nmetadata: {name: x}\n', [/kind/]],
  [
    'a missing name',
    'apiVersion: v1\nkind: Pod\nmetadata: {}\nspec: {containers: [{name: a, image: b}]}\n',
    [/metadata\.name/],
  ],
  [
    'an unknown field',
    'apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\nspec:\n  containers:\n  - name: a\n    image: b\n    imagePullPolice: Never\n',
    [/imagePullPolice/, /yaml:9: /, /imagePullPolicy/],
  ],
  [
    'a wrong type',
    pod({ containers: 'one' }).replace(/"containers":\[.*\]/, '"containers":"one"'),
    [/spec\.containers/],
  ],
  ['a number that is none', pod({ terminationGracePeriodSeconds: 'soon' }), [/terminationGracePeriodSeconds/]],
  ['negative grace', pod({ terminationGracePeriodSeconds: -1 }), [/terminationGracePeriodSeconds/, /-1/]],
  [
    'duplicate container names',
    JSON.stringify(podOf('bad', [CONTAINER, CONTAINER])),
    [/containers\[1\]\.name/, /main/],
  ],
  [
    'a volume that is not defined',
    JSON.stringify(podOf('bad', [{ volumeMounts: [{ name: 'ghost', mountPath: '/x' }] }])),
    [/volumeMounts\[0\]\.name/, /ghost/],
  ],
  ['a bad name', 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not_A_Name}\n', [/Not_A_Name/]],
  ['no containers', 'apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {}\n', [/spec\.containers/]],
  ['2 MB', `${GOOD.slice(0, -2)},"big":"${'x'.repeat(2 << 20)}"}}`, [/large|big|MB|bytes/i]],
  ['nothing in it', '', [/empty|no objects/i]],
  ['only comments', '# nothing\n---\n', [/no Kubernetes objects/]],
  ['binary', Buffer.from([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, 0, 0xff, 0xfe, 0, 0]), [/text|UTF-8|binary/i]],
  ['a list', '- a\n- b\n', [/object|mapping/i]],
];

describe('manifests that are wrong', { skip }, () => {
  let daemon: Gantryd;
  let leaks: LeakCheck;

  before(async () => {
    daemon = await Gantryd.make();
    await daemon.start();
    leaks = await LeakCheck.begin(daemon.root.leakRoots());
  });
  after(async () => {
    await daemon[Symbol.asyncDispose]();
  });

  const assertNothingApplied = async (): Promise<void> => {
    for (const resource of ['pods', 'configmaps', 'secrets'] as const) {
      const { items } = await daemon.api.kube.list(op, resource, { namespace: 'default' });
      assert.deepEqual(
        items.map(({ metadata }) => metadata.name).filter((name) => name !== 'kube-root-ca.crt'),
        [],
      );
    }
  };

  for (const [title, manifest, words] of cases) {
    test(`${title}: a clear line, exit code 1, and nothing is applied`, async () => {
      const path = join(daemon.root.dir, 'manifest.yaml');
      await writeFile(path, manifest);
      const { code, stdout, stderr } = await daemon.cli(['apply', '-f', path]);
      assert.equal(code, 1, stderr);
      assert.equal(stdout, '');
      for (const word of words) assert.match(stderr, word);
      assert.ok(stderr.includes(path), stderr);
      assert.ok(stderr.length < 2000, 'no page of a stack trace');
      assert.ok(!/\n\s+at /.test(stderr), stderr);
      await assertNothingApplied();
    });
  }

  test('a folder, a missing file, an empty folder, a network address', async () => {
    const folder = join(daemon.root.dir, 'manifests');
    await mkdir(folder);
    const empty = await daemon.cli(['apply', '-f', folder]);
    assert.equal(empty.code, 1);
    assert.match(empty.stderr, /no \.yaml, \.yml or \.json file/);
    const missing = await daemon.cli(['apply', '-f', join(folder, 'nothing.yaml')]);
    assert.equal(missing.code, 1);
    assert.match(missing.stderr, /nothing\.yaml" does not exist/);
    assert.equal((await daemon.cli(['apply', '-f', 'https://example.test/x.yaml'])).code, 1);
    assert.equal((await daemon.cli(['apply'])).code, 1);
    await writeFile(join(folder, 'b.yaml'), GOOD);
    await writeFile(join(folder, 'readme.txt'), 'not a manifest');
    assert.equal(await daemon.gantry('apply', '-f', folder), 'configmap/innocent created\n');
    // What is broken beside it does not hold it up, and nothing of a broken file is applied.
    await writeFile(join(folder, 'a.yaml'), `${GOOD.replace('innocent', 'guilty')}\n---\nkind: Pot\n`);
    const mixed = await daemon.cli(['apply', '-f', folder]);
    assert.deepEqual([mixed.code, mixed.stdout], [1, 'configmap/innocent unchanged\n']);
    assert.match(mixed.stderr, /^error: [^\n]*a\.yaml:3: kind: [^\n]*\n$/);
    await rm(join(folder, 'a.yaml'));
    assert.equal(await daemon.gantry('delete', '-f', folder), 'configmap "innocent" deleted\n');
    await assertNothingApplied();
  });

  test('fields that are known and not supported are refused or warned of by name', async () => {
    const { code, stderr } = await daemon.cli(
      ['apply', '--dry-run', '-f', '-'],
      pod({ runtimeClassName: 'kata', priorityClassName: 'high', initContainers: [CONTAINER] }),
    );
    assert.ok(code === 1 || /Warning/.test(stderr), stderr);
    for (const field of ['runtimeClassName', 'initContainers']) assert.ok(stderr.includes(field), stderr);
  });

  test('commands that do not exist or make no sense', async () => {
    for (const args of [
      ['aply'],
      ['get'],
      ['get', 'potatoes'],
      ['delete', 'pod'],
      ['logs'],
      ['explain', 'node', 'x'],
      ['get', 'pods', '-o', 'xml'],
      ['logs', 'no-such-pod'],
      ['exec', 'no-such-pod', '--', 'true'],
      ['describe', 'pod', 'nobody'],
      ['explain', 'pod', 'nobody'],
    ]) {
      const { code, stdout, stderr } = await daemon.cli(args);
      assert.equal(code, 1, `${args.join(' ')}: ${stdout}${stderr}`);
      assert.notEqual(stderr, '', args.join(' '));
      assert.ok(!/\n\s+at /.test(stderr), stderr);
    }
    assert.equal((await daemon.cli(['--help'])).code, 0);
    assert.equal((await daemon.cli(['version'])).code, 0);
  });

  test('an API that is not there', async () => {
    const nowhere = await Gantryd.make();
    try {
      const { code, stderr } = await nowhere.cli(['get', 'pods']);
      assert.equal(code, 1);
      assert.match(stderr, /gantryd|api\.sock/);
      assert.ok(!/\n\s+at /.test(stderr), stderr);
    } finally {
      await nowhere[Symbol.asyncDispose]();
    }
    await leaks.assertNone();
  });
});
