import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { openFakeCli } from './fake-cli.ts';

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'manifests-'));
});
afterEach(async () => {
  await rm(dir, { recursive: true });
});

const map = (name: string): string => `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${name}}\n`;

async function folder(files: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, text] of Object.entries(files)) await writeFile(join(dir, name), text);
}

const BROKEN = {
  '1-good.yaml': map('one'),
  '2-broken.yaml': `${map('two')}---\nkind: Pot\napiVersion: v1\n`,
  '3-broken.json': '{"kind": "ConfigMap"',
  '4-good.yml': map('four'),
};

test('apply of a folder names every broken file, applies nothing of those and all of the others', async () => {
  await folder(BROKEN);
  const cli = await openFakeCli();
  const { code, out, err } = await cli.run(['apply', '-f', dir]);
  assert.equal(code, 1);
  assert.equal(out, 'configmap/one created\nconfigmap/four created\n');
  assert.match(err, new RegExp(`^error: ${dir}/2-broken\\.yaml:5: kind: Unsupported value: "Pot"`, 'm'));
  assert.match(err, new RegExp(`^error: ${dir}/3-broken\\.json:\\d+: not valid`, 'm'));
  const { items } = await cli.api.kube.list(cli.api.op, 'configmaps', { namespace: 'default' });
  assert.deepEqual(items.map(({ metadata }) => metadata.name).sort(), ['four', 'one']);
});

test('delete of a folder does the same', async () => {
  await folder(BROKEN);
  const cli = await openFakeCli();
  await cli.run(['apply', '-f', join(dir, '1-good.yaml')]);
  const { code, out, err } = await cli.run(['delete', '-f', dir]);
  assert.equal(code, 1);
  assert.equal(out, 'configmap "one" deleted\n');
  for (const name of ['2-broken.yaml', '3-broken.json']) assert.ok(err.includes(`error: ${dir}/${name}:`), err);
  assert.match(err, /configmaps "four" not found/);
});

test('a file that cannot be read is one broken file; its folder is not said to be missing', async () => {
  await folder({ 'a.yaml': map('a') });
  await symlink(join(dir, 'nowhere'), join(dir, 'b.yaml'));
  await mkdir(join(dir, 'c'));
  const { code, out, err } = await (await openFakeCli()).run(['apply', '-R', '-f', dir]);
  assert.deepEqual([code, out], [1, 'configmap/a created\n']);
  assert.equal(err, `error: the path "${dir}/b.yaml" does not exist\n`);
});

test('an object for another namespace than the command names breaks its file', async () => {
  await folder({
    'a.yaml': map('a'),
    'b.yaml': `${map('b')}---\n${map('c').replace('name: c', 'name: c, namespace: x')}`,
  });
  const { code, out, err } = await (await openFakeCli()).run(['apply', '-n', 'default', '-f', dir]);
  assert.deepEqual([code, out], [1, 'configmap/a created\n']);
  assert.match(err, /b\.yaml:5: the namespace of ConfigMap c is "x"/);
});

test('when every file is broken, nothing is said of there being no objects', async () => {
  await folder({ 'a.yaml': 'kind: Pot\n' });
  const { code, out, err } = await (await openFakeCli()).run(['apply', '-f', dir]);
  assert.deepEqual([code, out], [1, '']);
  assert.match(err, /^error: .*a\.yaml:1: kind: [^\n]*\n$/);
});

test('a path that does not exist stops all: it is a slip in the command and not in a manifest', async () => {
  await folder({ 'a.yaml': map('a') });
  const words = ['apply', '-f', join(dir, 'a.yaml'), '-f', join(dir, 'none.yaml')];
  const { code, out, err } = await (await openFakeCli()).run(words);
  assert.deepEqual([code, out, err], [1, '', `error: the path "${dir}/none.yaml" does not exist\n`]);
});

for (const verb of ['apply', 'delete']) {
  test(`${verb} -f with nothing behind it is an error, and not the folder that one is in`, async () => {
    await folder({ 'a.yaml': map('a') });
    const cli = await openFakeCli({}, {}, dir);
    await cli.run(['apply', '-f', '.']);
    for (const files of [['-f', ''], ['-f', '.', '-f', ''], ['--filename=']]) {
      const { code, out, err } = await cli.run([verb, ...files]);
      assert.deepEqual([code, out], [1, '']);
      assert.match(err, /^error: -f "": /);
    }
    assert.equal((await cli.api.kube.list(cli.api.op, 'configmaps', { namespace: 'default' })).items.length, 1);
  });
}

test('image import with an empty path is an error, too', async () => {
  const cli = await openFakeCli();
  for (const words of [[''], ['--rootfs', '', 'name']]) {
    const { code, err } = await cli.run(['image', 'import', ...words]);
    assert.equal(code, 1);
    assert.match(err, /empty/);
  }
});
