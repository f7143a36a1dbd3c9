import assert from 'node:assert/strict';
import { mkdtemp, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { makeFolders } from './make-folders.ts';

let dir: string;
before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'folders-'));
});
after(async () => {
  await rm(dir, { recursive: true });
});

test('all of a path is made, with the mode, and one that is there is a success', async () => {
  const path = join(dir, 'a/b/c');
  await makeFolders(path, 0o711);
  assert.equal((await stat(path)).mode & 0o777, 0o711);
  assert.equal((await stat(join(dir, 'a'))).mode & 0o777, 0o711);
  await makeFolders(path, 0o700);
  assert.equal((await stat(path)).mode & 0o777, 0o711, 'what was there is left as it is');
  await makeFolders(`${dir}/x/../y/`, 0o711);
  assert.ok((await stat(join(dir, 'y'))).isDirectory());
  await makeFolders('/', 0o711);
});

test('side by side they do not hinder one another', async () => {
  const path = join(dir, 'many/of/them');
  await Promise.all(Array.from({ length: 8 }, () => makeFolders(path, 0o755)));
  assert.ok((await stat(path)).isDirectory());
});

test('a link to a folder is one; a file in the way, and a link to nothing, are errors that name it', async () => {
  await makeFolders(join(dir, 'real'), 0o755);
  await symlink(join(dir, 'real'), join(dir, 'link'));
  await makeFolders(join(dir, 'link/below'), 0o755);
  assert.ok((await stat(join(dir, 'real/below'))).isDirectory());
  await writeFile(join(dir, 'file'), '');
  await assert.rejects(makeFolders(join(dir, 'file'), 0o755), { code: 'EEXIST', path: join(dir, 'file') });
  await assert.rejects(makeFolders(join(dir, 'file/below'), 0o755), { code: 'ENOTDIR' });
  await symlink(join(dir, 'nothing'), join(dir, 'dangling'));
  await assert.rejects(makeFolders(join(dir, 'dangling'), 0o755), { code: 'EEXIST' });
  await assert.rejects(makeFolders(join(dir, 'dangling/below'), 0o755), { path: join(dir, 'dangling') });
});

test('a file system that takes no folders and says that there is no such folder is not asked for ever', async () => {
  await assert.rejects(makeFolders('/proc/no-such-folder', 0o755), { code: 'ENOENT' });
  await assert.rejects(makeFolders('/proc/no-such-folder/below', 0o755), { code: 'ENOENT' });
});
