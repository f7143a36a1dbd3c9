import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { isTemporaryOf, writeFileAtomic } from './atomic-file.ts';

let dir: string;

before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'gantry-atomic-'));
});
after(async () => {
  await rm(dir, { recursive: true });
});

test('a file is written and written over, and nothing else stays in the folder', async () => {
  const path = join(dir, 'a.json');
  await writeFileAtomic(path, 'one');
  await writeFileAtomic(path, 'two', { sync: false });
  assert.equal(await readFile(path, 'utf8'), 'two');
  assert.deepEqual(await readdir(dir), ['a.json']);
});

test('a write that fails leaves nothing behind', async () => {
  await mkdir(join(dir, 'folder'));
  await assert.rejects(writeFileAtomic(join(dir, 'folder'), 'x'));
  assert.deepEqual((await readdir(dir)).sort(), ['a.json', 'folder']);
});

test('what a killed process leaves is known by its name', () => {
  assert.ok(isTemporaryOf('a.json.0123456789ab.tmp', '/some/where/a.json'));
  for (const name of [
    'a.json',
    'a.json.tmp',
    'b.json.0123456789ab.tmp',
    'a.json.0123456789ab.tmp.x',
    'a.jsonx.0123456789ab.tmp',
  ]) {
    assert.ok(!isTemporaryOf(name, '/some/where/a.json'), name);
  }
});
