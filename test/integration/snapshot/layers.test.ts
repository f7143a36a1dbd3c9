import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chownSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { canceled, kindOf, messageOf } from '../../../src/lib/errors.ts';
import { realSyscalls } from '../../../src/linux/syscalls.ts';
import { archive, diffIdOf, dir, file, hardLink, symlink, type Member } from './archive.ts';
import { needsRoot, openRoom, type Room } from './room.ts';

/** VFS_CAP_REVISION_2, effective, every capability: bytes that are no UTF-8. */
const ALL_CAPABILITIES = Buffer.from('01000002ffffffff00000000ff00000000000000', 'hex');

test('everything that an honest layer says is kept', needsRoot, async (t) => {
  const room = await openRoom(t, { durable: true });
  const mtime = { seconds: 1_234_567_890, nanoseconds: 123_456_789 };
  const { diffId, sizeBytes, inodes } = await room.unpack(
    { type: 'directory', path: './', mode: 0o751, uid: 7, gid: 8, mtime },
    dir('bin', { mode: 0o2755, mtime }),
    file('bin/su', 'su', { mode: 0o6755, uid: 1, gid: 2, mtime }),
    file('bin/ping', 'ping', { xattrs: [{ name: 'security.capability', value: ALL_CAPABILITIES }], uid: 5 }),
    hardLink('bin/sudo', 'bin/su'),
    symlink('bin/sh', '../../any/thing at all'),
    { type: 'fifo', path: 'fifo', mode: 0o620 },
    { type: 'character-device', path: 'tty', mode: 0o620, gid: 5, deviceMajor: 5, deviceMinor: 0 },
    { type: 'block-device', path: 'disk', mode: 0o660, deviceMajor: 259, deviceMinor: 300 },
    file('empty', ''),
    file('old', 'old', { mtime: { seconds: -100, nanoseconds: 0 } }),
    file('bin/late', 'changes the time of bin'),
  );
  const files = room.layers.filesOf(diffId);
  const at = (name: string) => lstatSync(join(files, name), { bigint: true });
  const mtimeNs = 1_234_567_890_123_456_789n;
  assert.deepEqual([at('.').mode & 0o7777n, at('.').uid, at('.').gid, at('.').mtimeNs], [0o751n, 7n, 8n, mtimeNs]);
  assert.deepEqual([at('bin').mode & 0o7777n, at('bin').mtimeNs], [0o2755n, mtimeNs]);
  const su = at('bin/su');
  assert.deepEqual([su.mode & 0o7777n, su.uid, su.gid, su.nlink, su.mtimeNs], [0o6755n, 1n, 2n, 2n, mtimeNs]);
  assert.equal(at('bin/sudo').ino, su.ino);
  assert.equal(readlinkSync(join(files, 'bin/sh')), '../../any/thing at all');
  assert.ok(at('fifo').isFIFO() && (at('fifo').mode & 0o777n) === 0o620n);
  assert.ok(at('tty').isCharacterDevice() && at('tty').rdev === 0x500n && at('tty').gid === 5n);
  const { rdev } = realSyscalls().statx(-100, join(files, 'disk'));
  assert.deepEqual(rdev, { major: 259, minor: 300 });
  assert.equal(at('old').mtimeNs, -100_000_000_000n);
  const capability = realSyscalls().lgetxattr(join(files, 'bin/ping'), 'security.capability');
  assert.deepEqual(Buffer.from(capability ?? []), ALL_CAPABILITIES);
  assert.equal(sizeBytes, 2 + 4 + 3 + 23);
  assert.equal(inodes, 12);
  assert.deepEqual(room.layers.marker(diffId).root, { mode: 0o751, uid: 7, gid: 8 });
});

test('gzip, several gzip members, zstd, several zstd frames and plain, by the first bytes', needsRoot, async (t) => {
  const room = await openRoom(t);
  const compressions: readonly ((tar: Buffer) => Buffer)[] = [
    (tar) => tar,
    (tar) => gzipSync(tar),
    (tar) => Buffer.concat([gzipSync(tar.subarray(0, 700)), gzipSync(tar.subarray(700))]),
    (tar) => zstdCompressSync(tar),
    (tar) => Buffer.concat([zstdCompressSync(tar.subarray(0, 700)), zstdCompressSync(tar.subarray(700))]),
    (tar) => Buffer.concat([Buffer.from('502a4d180400000061626364', 'hex'), zstdCompressSync(tar)]),
  ];
  for (const [i, compress] of compressions.entries()) {
    const tar = archive(file(`f${String(i)}`, 'content '.repeat(1000)));
    const { diffId } = await room.unpackBytes(compress(tar), diffIdOf(tar));
    assert.equal(readFileSync(join(room.layers.filesOf(diffId), `f${String(i)}`), 'utf8').length, 8000);
  }
});

test('damaged streams, cut streams and other content are DataLoss and leave nothing', needsRoot, async (t) => {
  const room = await openRoom(t);
  const tar = archive(file('a', 'content '.repeat(100_000)));
  const broken = (blob: Buffer, at: number): Buffer => {
    const copy = Buffer.from(blob);
    copy.fill(0x55, at, at + 8);
    return copy;
  };
  const gzip = gzipSync(tar);
  const zstd = zstdCompressSync(tar);
  const cases: readonly (readonly [Buffer, RegExp])[] = [
    [gzip.subarray(0, gzip.length - 30), /gzip stream is damaged/],
    [broken(gzip, 200), /damaged/],
    [zstd.subarray(0, zstd.length - 10), /zstd stream is damaged/],
    [tar.subarray(0, 4000), /middle of a member/],
    [archive(file('b')), /the image says/],
    [tar.subarray(0, tar.length - 512), /the image says/],
  ];
  for (const [blob, message] of cases) {
    await assert.rejects(room.unpackBytes(blob, diffIdOf(tar)), { kind: 'DataLoss', message });
  }
  assert.deepEqual(room.layerNames(), []);
  assert.equal(room.layers.has(diffIdOf(tar)), false);
});

test('a missing blob and a diffId that is none', needsRoot, async (t) => {
  const room = await openRoom(t);
  const source = join(room.base, 'missing');
  await assert.rejects(room.layers.unpack(room.op, { diffId: diffIdOf(Buffer.from('x')), source }), {
    kind: 'NotFound',
  });
  await assert.rejects(room.layers.unpack(room.op, { diffId: '../x', source }), { kind: 'InvalidArgument' });
  await assert.rejects(room.layers.remove(room.op, 'sha256:../../outside'), { kind: 'InvalidArgument' });
});

test('whiteouts and opaque directories in the terms of overlayfs', needsRoot, async (t) => {
  const room = await openRoom(t);
  const { diffId } = await room.unpack(
    file('d/.wh.gone', ''),
    dir('opaque'),
    file('opaque/.wh..wh..opq', ''),
    file('opaque/kept'),
    file('.wh.replaced', ''),
    dir('replaced'),
    file('replaced/new'),
    dir('both'),
    file('both/mine'),
    file('.wh.both', ''),
    file('stays'),
    file('.wh.stays', ''),
    file('.wh.implied', ''),
    file('implied/x'),
    file('.wh..wh.plnk/1', 'aufs'),
  );
  const files = room.layers.filesOf(diffId);
  const opaque = (name: string): string | undefined => {
    const value = realSyscalls().lgetxattr(join(files, name), 'trusted.overlay.opaque');
    return value === undefined ? undefined : Buffer.from(value).toString();
  };
  const gone = lstatSync(join(files, 'd/gone'));
  assert.ok(gone.isCharacterDevice() && gone.rdev === 0);
  assert.deepEqual(['d', 'opaque', 'replaced', 'both', 'implied'].map(opaque), [undefined, 'y', 'y', 'y', 'y']);
  assert.deepEqual(readdirSync(join(files, 'both')), ['mine']);
  assert.equal(readFileSync(join(files, 'stays'), 'utf8'), 'stays');
  assert.deepEqual([...room.layers.marker(diffId).impliedDirectories].sort(), ['d', 'implied']);
  assert.ok(!existsSync(join(files, '.wh..wh.plnk')));
});

test('the last one of a name stands', needsRoot, async (t) => {
  const room = await openRoom(t);
  const { diffId } = await room.unpack(
    file('a', 'first', { mode: 0o777 }),
    file('a', '2nd', { mode: 0o600 }),
    file('f', 'file'),
    dir('f'),
    dir('g'),
    file('g', 'file'),
    symlink('s', 'x'),
    symlink('s', 'y'),
    dir('m', { mode: 0o700 }),
    file('m/kept'),
    dir('m', { mode: 0o711, uid: 3 }),
    file('one', '1'),
    file('two', '2'),
    hardLink('two', 'one'),
    hardLink('two', './one'),
  );
  const at = (name: string): string => join(room.layers.filesOf(diffId), name);
  assert.equal(readFileSync(at('a'), 'utf8'), '2nd');
  assert.equal(lstatSync(at('a')).mode & 0o777, 0o600);
  assert.ok(lstatSync(at('f')).isDirectory() && lstatSync(at('g')).isFile());
  assert.equal(readlinkSync(at('s')), 'y');
  assert.deepEqual([lstatSync(at('m')).mode & 0o777, lstatSync(at('m')).uid], [0o711, 3]);
  assert.equal(readFileSync(at('m/kept'), 'utf8'), 'm/kept');
  assert.equal(readFileSync(at('two'), 'utf8'), '1');
});

test(
  'a content that was written through one of two hard links is not torn by its replacement',
  needsRoot,
  async (t) => {
    const room = await openRoom(t);
    const { diffId } = await room.unpack(file('a', 'old'), hardLink('b', 'a'), file('a', 'new'));
    const files = room.layers.filesOf(diffId);
    assert.equal(readFileSync(join(files, 'b'), 'utf8'), 'old');
    assert.equal(readFileSync(join(files, 'a'), 'utf8'), 'new');
  },
);

test('a layer asked for twice at a time is unpacked once', needsRoot, async (t) => {
  const room = await openRoom(t);
  const tar = archive(file('a', Buffer.alloc(3 << 20)));
  const results = await Promise.all([room.unpackBytes(tar), room.unpackBytes(tar), room.unpackBytes(tar)]);
  assert.equal(new Set(results.map((result) => result.diffId)).size, 1);
  assert.deepEqual(room.layerNames().length, 1);
});

test('when the first of two fails, the second tries with its own file', needsRoot, async (t) => {
  const room = await openRoom(t);
  const tar = archive(file('a', Buffer.alloc(1 << 20)));
  const [bad, good] = await Promise.allSettled([
    room.unpackBytes(tar.subarray(0, 100_000), diffIdOf(tar)),
    room.unpackBytes(tar),
  ]);
  assert.equal(bad.status, 'rejected');
  assert.equal(good.status, 'fulfilled');
  assert.ok(room.layers.has(diffIdOf(tar)));
});

test('a canceled unpack rejects with the reason and leaves nothing', needsRoot, async (t) => {
  const room = await openRoom(t);
  const controller = new AbortController();
  const tar = archive(...Array.from({ length: 40 }, (_unused, i) => file(`f${String(i)}`, Buffer.alloc(1 << 20))));
  const source = join(room.base, 'blob');
  writeFileSync(source, tar);
  const unpacking = room.layers.unpack(
    { ...room.op, signal: controller.signal },
    { diffId: diffIdOf(tar), source, onProgress: () => controller.abort(canceled('the user changed their mind')) },
  );
  await assert.rejects(unpacking, { kind: 'Canceled', message: /changed their mind/ });
  assert.deepEqual(room.layerNames(), []);
});

test('after a restart: whole layers are there, halves are gone, strangers are left alone', needsRoot, async (t) => {
  const room = await openRoom(t);
  const { diffId } = await room.unpack(file('a'));
  const layers = join(room.root, 'layers');
  mkdirSync(join(layers, '.staging-0123456789abcdef/fs/deep/er'), { recursive: true });
  mkdirSync(join(layers, '.removed-0123456789abcdef/fs'), { recursive: true });
  const unmarked = 'f'.repeat(64);
  mkdirSync(join(layers, unmarked, 'fs'), { recursive: true });
  await room.reopen();
  assert.deepEqual(room.layers.list(), [diffId]);
  assert.deepEqual(room.layerNames().sort(), [diffId.slice(7), unmarked].sort());
  // One that is there without a marker makes way for a real one.
  const tar = archive(file('b'));
  mkdirSync(join(layers, diffIdOf(tar).slice(7)), { recursive: true });
  await room.unpackBytes(tar);
  assert.ok(existsSync(join(room.layers.filesOf(diffIdOf(tar)), 'b')));
});

test('remove, also twice, also while unpacking, and never under a holder', needsRoot, async (t) => {
  const room = await openRoom(t);
  const tar = archive(file('a', Buffer.alloc(2 << 20)));
  const diffId = diffIdOf(tar);
  const unpacking = room.unpackBytes(tar);
  await room.layers.remove(room.op, diffId);
  await unpacking;
  assert.deepEqual(room.layerNames(), []);
  await room.layers.remove(room.op, diffId);

  await room.unpackBytes(tar);
  room.layers.hold('container', [diffId]);
  room.layers.hold('other', [diffId]);
  const released: string[] = [];
  room.layers.onReleased((diffIds) => released.push(...diffIds));
  await assert.rejects(room.layers.remove(room.op, diffId), { kind: 'FailedPrecondition', message: /in use/ });
  assert.ok(existsSync(room.layers.filesOf(diffId)));
  room.layers.release('other');
  assert.deepEqual([released, room.layers.isHeld(diffId)], [[], true]);
  room.layers.release('container');
  assert.deepEqual([released, room.layers.isHeld(diffId)], [[diffId], false]);
  await room.layers.remove(room.op, diffId);
  assert.deepEqual(room.layerNames(), []);
});

function makeRootfs(room: Room): string {
  const rootfs = join(room.base, 'rootfs');
  mkdirSync(join(rootfs, 'bin'), { recursive: true });
  mkdirSync(join(rootfs, 'tmp'));
  writeFileSync(join(rootfs, 'bin/busybox'), Buffer.alloc(1_500_000, 'b'), { mode: 0o755 });
  linkSync(join(rootfs, 'bin/busybox'), join(rootfs, 'bin/sh'));
  execFileSync('ln', ['-s', '/nowhere/at all', join(rootfs, 'link')]);
  execFileSync('mkfifo', [join(rootfs, 'fifo')]);
  execFileSync('chmod', ['1777', join(rootfs, 'tmp')]);
  execFileSync('mknod', [join(rootfs, 'null'), 'c', '1', '3']);
  writeFileSync(Buffer.concat([Buffer.from(`${rootfs}/`), Buffer.from([0xff, 0xe9])]), 'bytes');
  realSyscalls().lsetxattr(join(rootfs, 'bin/busybox'), 'security.capability', ALL_CAPABILITIES);
  chownSync(rootfs, 11, 12);
  return rootfs;
}

test('a root filesystem directory becomes a layer with all that it has, always the same one', needsRoot, async (t) => {
  const room = await openRoom(t);
  const rootfs = makeRootfs(room);
  const first = await room.layers.adoptRootfs(room.op, rootfs);
  const second = await room.layers.adoptRootfs(room.op, rootfs);
  assert.deepEqual(second, first);
  assert.deepEqual(room.layerNames(), [first.diffId.slice(7)]);
  const files = room.layers.filesOf(first.diffId);
  const list = (directory: string): string =>
    execFileSync('find', [directory, '-printf', '%P %m %U %G %y %l %T@ %n\n'], { encoding: 'latin1' })
      .split('\n')
      .sort()
      .join('\n');
  assert.equal(list(files), list(rootfs));
  execFileSync('cmp', [join(files, 'bin/sh'), join(rootfs, 'bin/sh')]);
  const capability = realSyscalls().lgetxattr(join(files, 'bin/busybox'), 'security.capability');
  assert.deepEqual(Buffer.from(capability ?? []), ALL_CAPABILITIES);
});

test('what is mounted in a root filesystem is not copied', needsRoot, async (t) => {
  const room = await openRoom(t);
  const rootfs = makeRootfs(room);
  await room.mounts.mount(room.op, { source: 'tmpfs', target: join(rootfs, 'tmp'), type: 'tmpfs' });
  try {
    writeFileSync(join(rootfs, 'tmp/mounted'), 'x');
    const { diffId } = await room.layers.adoptRootfs(room.op, rootfs);
    assert.deepEqual(readdirSync(join(room.layers.filesOf(diffId), 'tmp')), []);
  } finally {
    await room.mounts.unmount(room.op, join(rootfs, 'tmp'));
  }
});

test('a root filesystem as a tar file that tar made, and things that are none', needsRoot, async (t) => {
  const room = await openRoom(t);
  const rootfs = makeRootfs(room);
  const tar = join(room.base, 'rootfs.tar.gz');
  execFileSync('tar', ['--numeric-owner', '--xattrs', '-C', rootfs, '-czf', tar, '.']);
  const { diffId } = await room.layers.adoptRootfs(room.op, tar);
  assert.equal(lstatSync(join(room.layers.filesOf(diffId), 'bin/sh')).nlink, 2);
  assert.deepEqual(room.layers.marker(diffId).root, { mode: 0o755, uid: 11, gid: 12 });
  await assert.rejects(room.layers.adoptRootfs(room.op, join(room.base, 'none')), { kind: 'NotFound' });
  await assert.rejects(room.layers.adoptRootfs(room.op, join(rootfs, 'fifo')), { kind: 'InvalidArgument' });
  writeFileSync(join(rootfs, '.wh.x'), '');
  await assert.rejects(room.layers.adoptRootfs(room.op, rootfs), { kind: 'InvalidArgument', message: /deletion/ });
});

test('archives as GNU tar writes them: gnu, pax and v7, with long names', needsRoot, async (t) => {
  const room = await openRoom(t);
  const rootfs = join(room.base, 'rootfs');
  const long = 'directory/'.repeat(15);
  mkdirSync(join(rootfs, long), { recursive: true });
  writeFileSync(join(rootfs, long, 'file'), 'x');
  execFileSync('ln', ['-s', `${'target/'.repeat(20)}end`, join(rootfs, 'link')]);
  for (const format of ['gnu', 'pax', 'oldgnu']) {
    const tar = join(room.base, `${format}.tar`);
    execFileSync('tar', [`--format=${format}`, '--numeric-owner', '-C', rootfs, '-cf', tar, '.']);
    const { diffId } = await room.layers.adoptRootfs(room.op, tar);
    const files = room.layers.filesOf(diffId);
    assert.equal(readFileSync(join(files, long, 'file'), 'utf8'), 'x', format);
    assert.equal(readlinkSync(join(files, 'link')), `${'target/'.repeat(20)}end`, format);
  }
});

test('an attribute that the file system does not take is left out and named', needsRoot, async (t) => {
  const room = await openRoom(t);
  const strange: Member = { ...symlink('s', 'x'), xattrs: [{ name: 'user.on-a-link', value: Buffer.from('v') }] };
  const { diffId } = await room.unpack(strange, file('f'));
  assert.deepEqual(room.layers.marker(diffId).skippedXattrs, ['user.on-a-link']);
});

test('an inherited ACL does not reach what is unpacked below it', needsRoot, async (t) => {
  const room = await openRoom(t);
  // user::rwx, user 1000: rwx, group::r-x, mask::rwx, other::r-x
  const acl = Buffer.from(
    '0200000001000700ffffffff02000700e803000004000500ffffffff10000700ffffffff20000500ffffffff',
    'hex',
  );
  const { diffId } = await room.unpack(
    dir('d', { xattrs: [{ name: 'system.posix_acl_default', value: acl }] }),
    file('d/f', 'x', { mode: 0o640 }),
  );
  const files = room.layers.filesOf(diffId);
  if (room.layers.marker(diffId).skippedXattrs.length > 0) t.skip('this file system has no ACLs');
  else assert.deepEqual(realSyscalls().llistxattr(join(files, 'd')), ['system.posix_acl_default']);
  assert.deepEqual(realSyscalls().llistxattr(join(files, 'd/f')), []);
});

test('a full disk is said to be full, and nothing of the layer stays', needsRoot, async (t) => {
  const room = await openRoom(t);
  const layers = join(room.root, 'layers');
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=512k', 'gantry-test', layers]);
  try {
    await assert.rejects(room.unpack(file('big', 'x'.repeat(2 << 20))), (error) => {
      assert.equal(kindOf(error), 'ResourceExhausted');
      assert.match(messageOf(error), /no space left on device/);
      return true;
    });
    assert.deepEqual(room.layerNames(), []);
  } finally {
    execFileSync('umount', [layers]);
  }
});
