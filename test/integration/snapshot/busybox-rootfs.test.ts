import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, lstatSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { makeBusyboxRootfs } from '../../../scripts/busybox-rootfs.ts';
import { needsRoot, openRoom } from './room.ts';

const options = {
  skip: needsRoot.skip || (!existsSync('/usr/bin/busybox') && !existsSync('/bin/busybox') && 'needs busybox'),
};

test('a root filesystem made from busybox runs its applets, and comes out the same each time', options, async (t) => {
  const room = await openRoom(t);
  const diffIds: string[] = [];
  for (const name of ['one', 'two']) {
    const rootfs = join(room.base, name);
    mkdirSync(rootfs);
    await makeBusyboxRootfs(rootfs);
    diffIds.push((await room.layers.adoptRootfs(room.op, rootfs)).diffId);
  }
  const [diffId = '', again] = diffIds;
  assert.equal(again, diffId);
  const files = room.layers.filesOf(diffId);
  assert.equal(lstatSync(join(files, 'tmp')).mode & 0o7777, 0o1777);
  // The chrooted program sees nothing of this machine: its libraries are in the tree.
  const inside = (...argv: string[]): string =>
    execFileSync('chroot', [files, ...argv], { encoding: 'utf8', env: { PATH: '/usr/bin:/sbin' } });
  assert.equal(inside('/bin/sh', '-c', 'echo $((6 * 7)) | cat; id -u user; ls /www'), '42\n1000\nindex.html\n');
  assert.match(inside('/usr/bin/env', 'sh', '-c', 'ls -ld /tmp'), /^drwxrwxrwt/);
});
