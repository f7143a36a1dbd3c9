import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { gzipSync } from 'node:zlib';
import { archive, diffIdOf, dir, file, hardLink, symlink, type Member } from './archive.ts';
import { needsRoot, openRoom, type Room } from './room.ts';

/**
 * Each attack on its own. The room compares a tree beside the data directory before and after, by content, mode, owner,
 * link count, inode and times, so every test here also says "and nothing outside was touched".
 */

async function refused(room: Room, message: RegExp, ...members: readonly Member[]): Promise<void> {
  await assert.rejects(room.unpack(...members), { kind: 'InvalidArgument', message });
  assert.deepEqual(room.layerNames(), [], 'nothing of a refused layer stays');
}

/** What an absolute path of the host would be inside the layer. */
function inside(files: string, hostPath: string): string {
  return join(files, hostPath);
}

test('a path that climbs out is refused', needsRoot, async (t) => {
  const room = await openRoom(t);
  await refused(room, /climbs out/, file('../../../outside/evil'));
  await refused(room, /climbs out/, file('a/../../../outside/evil'));
  await refused(room, /climbs out/, file('/../outside/evil'));
  await refused(room, /climbs out/, dir('..'));
  await refused(room, /climbs out/, symlink('../evil', 'x'));
  await refused(room, /climbs out/, file('../.wh.secret'));
});

test('a path with dot-dot that stays inside is taken lexically', needsRoot, async (t) => {
  const room = await openRoom(t);
  const { diffId } = await room.unpack(symlink('a', room.outside), file('a/../b'));
  assert.equal(readFileSync(join(room.layers.filesOf(diffId), 'b'), 'utf8'), 'a/../b');
});

test('an absolute path means the root of the layer', needsRoot, async (t) => {
  const room = await openRoom(t);
  const { diffId } = await room.unpack(file(`${room.outside}/secret`, 'evil'), file('//etc//gantry-evil', 'evil'));
  const files = room.layers.filesOf(diffId);
  assert.equal(readFileSync(inside(files, `${room.outside}/secret`), 'utf8'), 'evil');
  assert.equal(readFileSync(join(files, 'etc/gantry-evil'), 'utf8'), 'evil');
  assert.ok(!existsSync('/etc/gantry-evil'));
});

test('a file through an absolute symbolic link', needsRoot, async (t) => {
  const room = await openRoom(t);
  // To the kernel the link ends inside the layer, where there is no such directory.
  await refused(room, /is in the way/, symlink('a', room.outside), file('a/evil'));
  await refused(room, /is in the way/, symlink('a', room.outside), file('a/secret', 'evil'));
});

test(
  'a file through an absolute symbolic link whose target the layer has, lands in the layer',
  needsRoot,
  async (t) => {
    const room = await openRoom(t);
    const { diffId } = await room.unpack(
      dir(room.outside.slice(1)),
      symlink('a', room.outside),
      file('a/secret', 'evil'),
    );
    const files = room.layers.filesOf(diffId);
    assert.equal(readlinkSync(join(files, 'a')), room.outside);
    assert.equal(readFileSync(inside(files, `${room.outside}/secret`), 'utf8'), 'evil');
  },
);

test('a file through a relative symbolic link that climbs', needsRoot, async (t) => {
  const room = await openRoom(t);
  await refused(room, /is in the way/, symlink('a', '../../../../outside'), file('a/evil'));
  // `..` of the layer's root is the root: this one is a file of the layer.
  const { diffId } = await room.unpack(symlink('b', '../../..'), file('b/evil'));
  assert.ok(existsSync(join(room.layers.filesOf(diffId), 'evil')));
});

test('a chain of symbolic links out', needsRoot, async (t) => {
  const room = await openRoom(t);
  await refused(
    room,
    /is in the way/,
    symlink('a', 'b'),
    symlink('b', 'c/../..'),
    dir('c'),
    symlink('d', 'a/../../outside'),
    file('d/evil'),
  );
});

test('symbolic links in a circle', needsRoot, async (t) => {
  const room = await openRoom(t);
  await refused(room, /symbolic links/, symlink('a', 'b'), symlink('b', 'a'), file('a/x'));
});

test('a file over a symbolic link out replaces the link', needsRoot, async (t) => {
  const room = await openRoom(t);
  const { diffId } = await room.unpack(symlink('a', `${room.outside}/secret`), file('a', 'evil'));
  const path = join(room.layers.filesOf(diffId), 'a');
  assert.ok(lstatSync(path).isFile());
  assert.equal(readFileSync(path, 'utf8'), 'evil');
});

test('a directory over a symbolic link out replaces the link', needsRoot, async (t) => {
  const room = await openRoom(t);
  const { diffId } = await room.unpack(symlink('a', `${room.outside}/dir`), dir('a', { mode: 0o777 }), file('a/evil'));
  const files = room.layers.filesOf(diffId);
  assert.ok(lstatSync(join(files, 'a')).isDirectory());
  assert.ok(existsSync(join(files, 'a/evil')));
});

test('a directory replaced by a symbolic link out while its descriptor is cached', needsRoot, async (t) => {
  const room = await openRoom(t);
  // The empty directory goes, the link takes its name, the next file would follow it.
  await refused(room, /is in the way/, dir('a'), symlink('a', room.outside), file('a/evil'));
  // The opaque mark is what opens a directory without putting anything into it.
  const opened = file('p/a/.wh..wh..opq', '');
  await refused(room, /is in the way/, dir('p'), dir('p/a'), opened, symlink('p/a', room.outside), file('p/a/evil'));
});

test('a directory with content is not replaced', needsRoot, async (t) => {
  const room = await openRoom(t);
  await refused(room, /not empty/, dir('a'), file('a/x'), symlink('a', room.outside), file('a/evil'));
  await refused(room, /not empty/, dir('a'), file('a/x'), file('a'));
});

test('modes, owners and times do not go through a link', needsRoot, async (t) => {
  const room = await openRoom(t);
  const secret = `${room.outside}/secret`;
  const { diffId } = await room.unpack({ ...symlink('a', secret), mode: 0o777, uid: 1234, gid: 1234 });
  assert.equal(lstatSync(join(room.layers.filesOf(diffId), 'a')).uid, 1234);
});

test('extended attributes do not go through a link', needsRoot, async (t) => {
  const room = await openRoom(t);
  const xattrs = [{ name: 'trusted.gantry-test', value: Buffer.from('evil') }];
  await room.unpack({ ...symlink('a', `${room.outside}/secret`), xattrs });
});

test('a hard link to a file outside', needsRoot, async (t) => {
  const room = await openRoom(t);
  const secret = `${room.outside}/secret`;
  await refused(room, /not in the layer/, hardLink('a', secret));
  await refused(room, /climbs out/, hardLink('a', '../../../outside/secret'));
  await refused(room, /not in the layer/, hardLink('a', '/etc/passwd'));
});

test('a hard link through a symbolic link', needsRoot, async (t) => {
  const room = await openRoom(t);
  await refused(room, /not in the layer/, symlink('d', room.outside), hardLink('a', 'd/secret'));
  await refused(room, /not in the layer/, symlink('d', '../../../outside'), hardLink('a', 'd/secret'));
});

test('a hard link to a symbolic link out links the link', needsRoot, async (t) => {
  const room = await openRoom(t);
  const { diffId } = await room.unpack(symlink('s', `${room.outside}/secret`), hardLink('a', 's'));
  assert.ok(lstatSync(join(room.layers.filesOf(diffId), 'a')).isSymbolicLink());
});

test('a file written over a hard link to a symbolic link', needsRoot, async (t) => {
  const room = await openRoom(t);
  const { diffId } = await room.unpack(symlink('s', `${room.outside}/secret`), hardLink('a', 's'), file('a', 'evil'));
  assert.ok(lstatSync(join(room.layers.filesOf(diffId), 'a')).isFile());
});

test('a hard link to a directory, to itself, to the root and to nothing', needsRoot, async (t) => {
  const room = await openRoom(t);
  await refused(room, /directory/, dir('d'), hardLink('a', 'd'));
  await refused(room, /not in the layer/, file('a'), hardLink('a', './a'));
  await refused(room, /not in the layer/, hardLink('a', '/'));
  await refused(room, /no name|not in the layer/, hardLink('a', ''));
});

test('a hard link placed through a symbolic link out', needsRoot, async (t) => {
  const room = await openRoom(t);
  await refused(room, /is in the way/, file('f'), symlink('d', room.outside), hardLink('d/evil', 'f'));
});

test('whiteouts of the parent, of nothing and through links', needsRoot, async (t) => {
  const room = await openRoom(t);
  await refused(room, /whiteout/, file('.wh...'));
  await refused(room, /whiteout/, file('.wh..'));
  await refused(room, /whiteout/, file('.wh.'));
  await refused(room, /whiteout/, file('.wh.a/b'));
  await refused(room, /is in the way/, symlink('d', room.outside), file('d/.wh.secret'));
  await refused(room, /is in the way/, symlink('d', room.outside), file('d/.wh..wh..opq'));
});

test('a whiteout whose name holds a slash deletes in the layer only', needsRoot, async (t) => {
  const room = await openRoom(t);
  await refused(room, /climbs out/, file('.wh./../../outside/secret'));
  await refused(room, /whiteout/, file(`.wh.${room.outside}/secret`));
});

test('whiteouts whose content is large stay empty', needsRoot, async (t) => {
  const room = await openRoom(t);
  const { diffId, sizeBytes } = await room.unpack(file('.wh.a', 'x'.repeat(5000)), file('b', 'y'));
  const files = room.layers.filesOf(diffId);
  assert.ok(lstatSync(join(files, 'a')).isCharacterDevice());
  assert.equal(readFileSync(join(files, 'b'), 'utf8'), 'y');
  assert.equal(sizeBytes, 5001);
});

test('a device, a fifo or a file in place of a directory', needsRoot, async (t) => {
  const room = await openRoom(t);
  const device: Member = { type: 'character-device', path: 'a', deviceMajor: 1, deviceMinor: 3 };
  await refused(room, /is in the way/, device, file('a/b'));
  await refused(
    room,
    /is in the way/,
    { type: 'block-device', path: 'a', deviceMajor: 8, deviceMinor: 0 },
    file('a/b'),
  );
  await refused(room, /is in the way/, { type: 'fifo', path: 'a' }, file('a/b'));
  await refused(room, /is in the way/, file('a'), file('a/b'));
  await refused(room, /in place of the root/, { ...device, path: './' });
  await refused(room, /in place of the root/, symlink('/', room.outside));
});

test('a device, a fifo or a link through a symbolic link out', needsRoot, async (t) => {
  const room = await openRoom(t);
  const out = symlink('d', room.outside);
  const device: Member = { type: 'character-device', path: 'd/null', deviceMajor: 1, deviceMinor: 3 };
  await refused(room, /is in the way/, out, device);
  await refused(room, /is in the way/, out, { type: 'fifo', path: 'd/fifo' });
  await refused(room, /is in the way/, out, symlink('d/evil', '/etc/passwd'));
});

test('a file over a device or a fifo replaces it and is not written into it', needsRoot, async (t) => {
  const room = await openRoom(t);
  // Were the fifo opened instead, this would wait for ever.
  const { diffId } = await room.unpack(
    { type: 'fifo', path: 'f' },
    file('f', 'x'),
    { type: 'block-device', path: 'b', deviceMajor: 254, deviceMinor: 254 },
    file('b', 'y'),
  );
  const files = room.layers.filesOf(diffId);
  assert.ok(lstatSync(join(files, 'f')).isFile() && lstatSync(join(files, 'b')).isFile());
});

test("overlayfs's own attributes in an archive are left out", needsRoot, async (t) => {
  const room = await openRoom(t);
  const xattrs = [
    'trusted.overlay.redirect',
    'trusted.overlay.metacopy',
    'trusted.overlay.opaque',
    'user.overlay.opaque',
  ].map((name) => ({ name, value: Buffer.from('/etc') }));
  const { diffId } = await room.unpack({ ...dir('d'), xattrs }, { ...file('f'), xattrs });
  const marker = room.layers.marker(diffId);
  assert.deepEqual([...marker.skippedXattrs].sort(), xattrs.map((xattr) => xattr.name).sort());
});

test('a huge declared size is refused before a byte is written', needsRoot, async (t) => {
  const room = await openRoom(t, { limits: { maxBytes: 1 << 20, maxEntries: 100 } });
  const cases: Member[][] = [
    [file('a', 'x', { claimedSize: 2 ** 40 })],
    [file('a', 'x', { claimedSize: 2 ** 52 })],
    [file('a', Buffer.alloc(600 << 10)), file('b', Buffer.alloc(600 << 10))],
  ];
  for (const members of cases) {
    await assert.rejects(room.unpack(...members), { kind: 'ResourceExhausted', message: /too big/ });
  }
  assert.deepEqual(room.layerNames(), []);
});

test('too many entries, and a bomb of zeros after the end', needsRoot, async (t) => {
  const room = await openRoom(t, { limits: { maxBytes: 1 << 20, maxEntries: 10 } });
  const many = Array.from({ length: 11 }, (_unused, i) => file(`f${String(i)}`, ''));
  await assert.rejects(room.unpack(...many), { kind: 'ResourceExhausted', message: /more than 10 entries/ });
  const bomb = gzipSync(Buffer.concat([archive(file('a')), Buffer.alloc(4 << 20)]));
  await assert.rejects(room.unpackBytes(bomb, diffIdOf(Buffer.alloc(0))), { kind: 'ResourceExhausted' });
  assert.deepEqual(room.layerNames(), []);
});

test('names too long and nested too deep', needsRoot, async (t) => {
  const room = await openRoom(t);
  await refused(room, /too long/, file('n'.repeat(256)));
  await refused(room, /too long/, file(`${'d/'.repeat(2500)}f`));
  const { diffId } = await room.unpack(file(`${'d/'.repeat(1000)}f`));
  assert.deepEqual(readdirSync(room.layers.filesOf(diffId)), ['d']);
});

test('names with bytes that are no text', needsRoot, async (t) => {
  const room = await openRoom(t);
  const { diffId } = await room.unpack(
    file('d\xff\xfe/f\x80\n\x1b[31m', 'x'),
    hardLink('l\xe9', 'd\xff\xfe/f\x80\n\x1b[31m'),
  );
  const names = readdirSync(room.layers.filesOf(diffId), { encoding: 'buffer' }).map((name) => name.toString('latin1'));
  assert.deepEqual(names.sort(), ['d\xff\xfe', 'l\xe9']);
});

test('not an archive at all', needsRoot, async (t) => {
  const room = await openRoom(t);
  await assert.rejects(room.unpackBytes(Buffer.from('<html>'.repeat(500))), {
    kind: 'InvalidArgument',
    message: /no tar/,
  });
  await assert.rejects(room.unpackBytes(Buffer.alloc(0)), { kind: 'InvalidArgument', message: /empty/ });
  await assert.rejects(room.unpackBytes(Buffer.from([0xfd, 0x37, 0x7a, 0x58, 0x5a, 0])), {
    kind: 'NotImplemented',
    message: /xz/,
  });
  await assert.rejects(room.unpackBytes(Buffer.from('BZh91AY')), { kind: 'NotImplemented', message: /bzip2/ });
  assert.deepEqual(room.layerNames(), []);
});

test('a sparse file takes the room that it takes, and one that lies about itself is refused', needsRoot, async (t) => {
  const room = await openRoom(t);
  const pack = (...args: readonly string[]): Buffer =>
    execFileSync('tar', ['--sparse', '-C', room.base, '-cf', '-', ...args], { maxBuffer: 1 << 26 });
  const path = join(room.base, 'sparse');
  writeFileSync(path, 'begin');
  truncateSync(path, 3 << 26);
  appendFileSync(path, 'end');
  truncateSync(path, 1 << 28);
  for (const format of [['--format=gnu'], ['--format=posix', '--sparse-version=1.0']]) {
    const { diffId } = await room.unpackBytes(pack(...format, 'sparse'));
    const file = join(room.layers.filesOf(diffId), 'sparse');
    const { size, blocks } = lstatSync(file);
    assert.equal(size, 1 << 28);
    assert.ok(blocks * 512 < 1 << 20, `${String(blocks)} blocks`);
    assert.equal(execFileSync('cmp', [file, path]).length, 0);
  }
  const lie = pack('--format=posix', '--sparse-version=0.1', 'sparse');
  const at = lie.indexOf('GNU.sparse.map=0,');
  assert.ok(at > 0);
  // Its second run begins before the first one.
  const comma = lie.indexOf(',', lie.indexOf(',', at) + 1);
  for (let i = comma + 1; lie[i] !== 0x2c; i++) lie[i] = 0x30;
  const before = room.layerNames();
  await assert.rejects(room.unpackBytes(lie), { kind: 'InvalidArgument', message: /map that makes no sense/ });
  assert.deepEqual(room.layerNames(), before);
  unlinkSync(path);
});
