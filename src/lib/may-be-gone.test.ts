import assert from 'node:assert/strict';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { namesIn, rmdirIfThere, unlinkIfThere } from './may-be-gone.ts';

test('what is gone has no names and needs no removal; what is there and cannot be removed is an error', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'gantry-gone-'));
  const [file, none] = [join(folder, 'file'), join(folder, 'none')];
  await writeFile(file, '');
  assert.deepEqual(await namesIn(folder), ['file']);
  for (const path of [none, file, join(file, 'below')]) assert.deepEqual(await namesIn(path), []);
  for (const path of [none, join(file, 'below')]) await unlinkIfThere(path);
  await assert.rejects(unlinkIfThere(folder));
  await rmdirIfThere(none);
  await assert.rejects(rmdirIfThere(folder), { code: 'ENOTEMPTY' });
  await assert.rejects(rmdirIfThere(file), { code: 'ENOTDIR' });
  await unlinkIfThere(file);
  await rmdirIfThere(folder);
  assert.deepEqual(await namesIn(folder), []);
});
