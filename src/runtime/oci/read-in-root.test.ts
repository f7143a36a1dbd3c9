import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { placeInRoot, readInRoot } from './read-in-root.ts';

test('an image’s file is read inside the image, whatever its links say', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'gt-root-'));
  const root = join(dir, 'root');
  try {
    await mkdir(join(root, 'usr/etc'), { recursive: true });
    await mkdir(join(root, 'etc'));
    await writeFile(join(root, 'usr/etc/passwd'), 'inside');
    await writeFile(join(dir, 'passwd'), 'outside');
    await symlink('/usr/etc/passwd', join(root, 'etc/absolute'));
    await symlink('../../../../usr/etc/passwd', join(root, 'etc/climbing'));
    await symlink('../../passwd', join(root, 'etc/out'));
    await symlink('loop', join(root, 'etc/loop'));
    await symlink('/usr/etc', join(root, 'link'));
    execFileSync('mkfifo', [join(root, 'etc/fifo')]);
    const read = (path: string): Promise<string | undefined> => readInRoot(root, path, 100);
    for (const path of [
      '/usr/etc/passwd',
      'usr//./etc/../etc/passwd',
      '/etc/absolute',
      '/etc/climbing',
      '/link/passwd',
    ]) {
      assert.equal(await read(path), 'inside', path);
    }
    for (const path of ['/etc/out', '/../passwd', '/etc/none', '/etc/absolute/x']) {
      assert.equal(await read(path), undefined, path);
    }
    await assert.rejects(read('/etc/loop'), /too many links/);
    await assert.rejects(read('/etc'), /not a regular file|folder/);
    await assert.rejects(read('/etc/fifo'), /not a regular file/);
    await assert.rejects(readInRoot(root, '/usr/etc/passwd', 3), /more than 3/);
    const places: readonly (readonly [string, string | undefined])[] = [
      ['/', ''],
      ['..', ''],
      ['usr/etc', 'usr/etc'],
      ['/link', 'usr/etc'],
      ['link/../../etc/absolute', 'usr/etc/passwd'],
      ['/etc/climbing', 'usr/etc/passwd'],
      ['etc/out', undefined],
      ['../../../passwd', undefined],
      ['none', undefined],
      ['etc/absolute/x', undefined],
    ];
    for (const [path, place] of places) {
      assert.equal(await placeInRoot(root, path), place === undefined ? undefined : join(root, place), path);
    }
    await assert.rejects(placeInRoot(root, 'etc/loop/x'), /too many links/);
    const open = (await readdir('/proc/self/fd')).length;
    await placeInRoot(root, '/link');
    await read('/etc/climbing');
    assert.equal((await readdir('/proc/self/fd')).length, open);
  } finally {
    await rm(dir, { recursive: true });
  }
});
