import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, readlink, rm, stat } from 'node:fs/promises';
import os from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { writeAtomicDirectory, type Payload } from './atomic-directory.ts';
import { keyFiles } from './key-files.ts';

function payload(files: Record<string, string>, mode = 0o644): Payload {
  return new Map(Object.entries(files).map(([path, text]) => [path, { data: Buffer.from(text), mode }]));
}

async function directory(t: TestContext): Promise<string> {
  const path = await mkdtemp(join(os.tmpdir(), 'gantry-atomic-'));
  t.after(() => rm(path, { recursive: true, force: true }));
  return path;
}

await test('files are links through ..data, and a new version replaces all at once', async (t) => {
  const root = await directory(t);
  const first = await writeAtomicDirectory(root, payload({ a: '1', 'sub/b': '2' }, 0o400), 0);
  assert.equal(first.changed, true);
  assert.equal(await readFile(join(root, 'a'), 'utf8'), '1');
  assert.equal(await readFile(join(root, 'sub/b'), 'utf8'), '2');
  assert.equal((await stat(join(root, 'a'))).mode & 0o777, 0o400);
  assert.equal(await readlink(join(root, 'a')), '..data/a');
  const before = await readlink(join(root, '..data'));
  assert.match(before, /^\.\.1970_01_01_00_00_00\./);

  assert.equal((await writeAtomicDirectory(root, payload({ a: '1', 'sub/b': '2' }, 0o400), 1)).changed, false);
  assert.equal(await readlink(join(root, '..data')), before);

  const second = await writeAtomicDirectory(root, payload({ a: 'new', c: '3' }), 2);
  assert.deepEqual(second.stale, [join(root, before)]);
  assert.equal(await readFile(join(root, 'a'), 'utf8'), 'new');
  const names = (await readdir(root)).filter((name) => !name.startsWith('..')).sort();
  assert.deepEqual(names, ['a', 'c']);
});

await test('a path that leads out of the volume is refused', async (t) => {
  const root = await directory(t);
  for (const path of ['../x', 'a/../../x', '/x', '', '..data', 'a//b']) {
    await assert.rejects(
      writeAtomicDirectory(root, payload({ [path]: '1' }), 0),
      /is not a path inside the volume/,
      path,
    );
  }
});

await test('which key becomes which file', () => {
  const data = new Map([
    ['k1', Buffer.from('1')],
    ['k2', Buffer.from('2')],
  ]);
  const names = (files: Payload): string[] => [...files].map(([path, { mode }]) => `${path} ${mode.toString(8)}`);
  assert.deepEqual(names(keyFiles('x', data, { defaultMode: 0o644, optional: false })), ['k1 644', 'k2 644']);
  const items = [
    { key: 'k2', path: 'etc/two', mode: 0o600 },
    { key: 'k3', path: 'three' },
  ];
  assert.throws(
    () => keyFiles('configmap "n/x"', data, { items, defaultMode: 0o644, optional: false }),
    /configmap "n\/x" has no key k3/,
  );
  assert.deepEqual(names(keyFiles('x', data, { items, defaultMode: 0o644, optional: true })), ['etc/two 600']);
});
