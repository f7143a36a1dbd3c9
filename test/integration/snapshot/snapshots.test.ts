import assert from 'node:assert/strict';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { mountsBelow, readMountinfo } from '../../../src/linux/mountinfo.ts';
import { readRecord } from '../../../src/runtime/snapshot/snapshot-record.ts';
import { dir, file, symlink } from './archive.ts';
import { needsRoot, openRoom, type Room } from './room.ts';

function target(room: Room, name = 'target'): string {
  const path = join(room.base, name);
  mkdirSync(path, { recursive: true });
  return path;
}

async function mountPoints(room: Room): Promise<string[]> {
  return mountsBelow(await readMountinfo(), room.base).map((mount) => mount.mountPoint);
}

test('an image of several layers, written to, removed', needsRoot, async (t) => {
  const room = await openRoom(t);
  const bottom = await room.unpack(
    { type: 'directory', path: './', mode: 0o751, uid: 7, gid: 8 },
    dir('etc'),
    file('etc/hosts', 'bottom'),
    file('etc/gone'),
    dir('data'),
    file('data/old'),
  );
  const top = await room.unpack(
    file('etc/hosts', 'top'),
    file('etc/.wh.gone', ''),
    dir('data'),
    file('data/.wh..wh..opq', ''),
    file('data/new'),
  );
  const at = target(room);
  await room.snapshots.prepare(room.op, 'c1', [bottom.diffId, top.diffId]);
  await room.snapshots.prepare(room.op, 'c1', [bottom.diffId, top.diffId]);
  await room.snapshots.mount(room.op, 'c1', at);
  await room.snapshots.mount(room.op, 'c1', at);
  assert.deepEqual(await mountPoints(room), [at], 'mounted once');
  assert.equal(readFileSync(join(at, 'etc/hosts'), 'utf8'), 'top');
  assert.deepEqual(readdirSync(join(at, 'etc')), ['hosts']);
  assert.deepEqual(readdirSync(join(at, 'data')), ['new']);
  const root = lstatSync(at);
  assert.deepEqual([root.mode & 0o7777, root.uid, root.gid], [0o751, 7, 8]);

  const empty = await room.snapshots.usage(room.op, 'c1');
  writeFileSync(join(at, 'etc/hosts'), 'x'.repeat(1 << 20));
  writeFileSync(join(at, 'mine'), '');
  const used = await room.snapshots.usage(room.op, 'c1');
  assert.equal(used.inodes, empty.inodes + 3);
  assert.ok(used.bytes >= empty.bytes + (1 << 20), String(used.bytes));
  assert.equal(
    readFileSync(join(room.layers.filesOf(top.diffId), 'etc/hosts'), 'utf8'),
    'top',
    'the layer is as it was',
  );

  await assert.rejects(room.snapshots.remove(room.op, 'c1'), {
    kind: 'FailedPrecondition',
    message: /still mounted on/,
  });
  await room.snapshots.unmount(room.op, at);
  await room.snapshots.unmount(room.op, at);
  assert.deepEqual(await mountPoints(room), []);
  await room.snapshots.remove(room.op, 'c1');
  await room.snapshots.remove(room.op, 'c1');
  assert.deepEqual(await room.snapshots.list(), []);
});

test('an image without layers', needsRoot, async (t) => {
  const room = await openRoom(t);
  const at = target(room);
  await room.snapshots.prepare(room.op, 'c1', []);
  await room.snapshots.mount(room.op, 'c1', at);
  assert.deepEqual(readdirSync(at), []);
  writeFileSync(join(at, 'a'), 'x');
  await room.snapshots.unmount(room.op, at);
  await room.snapshots.remove(room.op, 'c1');
  assert.deepEqual(readdirSync(join(room.root, 'layers/.empty/0')), []);
});

test('two containers of one image do not see each other', needsRoot, async (t) => {
  const room = await openRoom(t);
  const { diffId } = await room.unpack(file('shared', 'image'));
  const targets = ['c1', 'c2'].map((id) => target(room, id));
  for (const [i, at] of targets.entries()) {
    await room.snapshots.prepare(room.op, `c${String(i + 1)}`, [diffId]);
    await room.snapshots.mount(room.op, `c${String(i + 1)}`, at);
  }
  const [one = '', two = ''] = targets;
  writeFileSync(join(one, 'shared'), 'mine');
  assert.equal(readFileSync(join(two, 'shared'), 'utf8'), 'image');
  for (const at of targets) await room.snapshots.unmount(room.op, at);
});

test('repeated and shared layers, and a layer that hides all below it', needsRoot, async (t) => {
  const room = await openRoom(t);
  const a = await room.unpack(file('a'));
  const b = await room.unpack(file('b'));
  const opaque = await room.unpack(file('.wh..wh..opq', ''), file('c'));
  const shows = async (id: string, chain: readonly string[]): Promise<string[]> => {
    const at = target(room, id);
    await room.snapshots.prepare(room.op, id, chain);
    await room.snapshots.mount(room.op, id, at);
    const names = readdirSync(at).sort();
    await room.snapshots.unmount(room.op, at);
    return names;
  };
  assert.deepEqual(await shows('twice', [a.diffId, b.diffId, a.diffId, a.diffId]), ['a', 'b']);
  assert.deepEqual(await shows('opaque', [a.diffId, opaque.diffId, b.diffId]), ['b', 'c']);
});

test(
  'what was changed in it is a layer that makes the same of the image, also while it is mounted',
  needsRoot,
  async (t) => {
    const room = await openRoom(t);
    const image = await room.unpack(
      ...[dir('d'), file('d/a'), file('d/b'), file('kept'), file('gone')],
      ...[dir('anew'), file('anew/old'), dir('dir-gone'), file('dir-gone/x')],
    );
    const at = target(room);
    await room.snapshots.prepare(room.op, 'c1', [image.diffId]);
    await room.snapshots.mount(room.op, 'c1', at);
    for (const name of ['gone', 'd/a', 'dir-gone', 'anew']) rmSync(join(at, name), { recursive: true });
    mkdirSync(join(at, 'anew'));
    for (const name of ['anew/new', 'd/c', 'kept', '.wh.of-the-user']) writeFileSync(join(at, name), `written ${name}`);
    symlinkSync('/no/such', join(at, 'link'));
    const changes = join(room.base, 'changes.tar');
    await room.snapshots.saveChanges(room.op, 'c1', changes);
    assert.equal(lstatSync(changes).mode & 0o777, 0o600);
    await assert.rejects(room.snapshots.saveChanges(room.op, 'c1', changes), { kind: 'AlreadyExists' });
    rmSync(join(at, '.wh.of-the-user'));
    const layer = await room.unpackBytes(readFileSync(changes));
    const again = target(room, 'again');
    await room.snapshots.prepare(room.op, 'c2', [image.diffId, layer.diffId]);
    await room.snapshots.mount(room.op, 'c2', again);
    const shown = (root: string): string[] => readdirSync(root, { recursive: true, encoding: 'utf8' }).sort();
    assert.deepEqual(shown(again), shown(at));
    assert.deepEqual(shown(again), ['anew', 'anew/new', 'd', 'd/b', 'd/c', 'kept', 'link']);
    assert.equal(readFileSync(join(again, 'kept'), 'utf8'), 'written kept');
    for (const path of [at, again]) await room.snapshots.unmount(room.op, path);
  },
);

test('directories that a layer only implies look as the layer below says', needsRoot, async (t) => {
  const room = await openRoom(t);
  const base = await room.unpack(
    { type: 'directory', path: './', mode: 0o711 },
    dir('tmp', { mode: 0o1777 }),
    dir('home', { mode: 0o751 }),
    dir('home/user', { mode: 0o700, uid: 1000, gid: 1000 }),
    dir('link-below', { mode: 0o700 }),
    symlink('etc', room.outside),
  );
  const added = await room.unpack(file('tmp/x'), file('home/user/.profile'), file('new/dir/y'), file('etc/z'));
  const at = target(room);
  await room.snapshots.prepare(room.op, 'c1', [base.diffId, added.diffId]);
  await room.snapshots.mount(room.op, 'c1', at);
  const mode = (name: string): string => {
    const stat = lstatSync(join(at, name));
    return `${(stat.mode & 0o7777).toString(8)} ${String(stat.uid)}`;
  };
  assert.deepEqual(['.', 'tmp', 'home', 'home/user', 'new', 'new/dir', 'etc'].map(mode), [
    '711 0',
    '1777 0',
    '751 0',
    '700 1000',
    '755 0',
    '755 0',
    '755 0',
  ]);
  assert.ok(existsSync(join(at, 'tmp/x')) && existsSync(join(at, 'home/user/.profile')));
  await room.snapshots.unmount(room.op, at);
});

test('a repaired directory brings nothing back that a layer above has replaced or hidden', needsRoot, async (t) => {
  const room = await openRoom(t);
  const odd = { mode: 0o700 };
  const names = ['file', 'gone', 'opaque'];
  const base = await room.unpack(
    ...names.flatMap((name) => [dir(name, odd), dir(`${name}/d`, odd), file(`${name}/d/x`)]),
  );
  const implying = await room.unpack(...names.map((name) => file(`${name}/d/y`)));
  const hiding = await room.unpack(
    file('file', 'now a file'),
    file('.wh.gone', ''),
    dir('opaque'),
    file('opaque/.wh..wh..opq'),
  );
  const at = target(room);
  await room.snapshots.prepare(room.op, 'c1', [base.diffId, implying.diffId, hiding.diffId]);
  await room.snapshots.mount(room.op, 'c1', at);
  assert.deepEqual(readdirSync(at).sort(), ['file', 'opaque']);
  assert.equal(readFileSync(join(at, 'file'), 'utf8'), 'now a file');
  assert.deepEqual(readdirSync(join(at, 'opaque')), []);
  await room.snapshots.unmount(room.op, at);
});

for (const overlayByLayer of [true, false]) {
  const how = overlayByLayer ? 'one by one' : 'through the page of options';
  test(`200 layers, given to the kernel ${how}`, needsRoot, async (t) => {
    const room = await openRoom(t, { overlayByLayer });
    const diffIds: string[] = [];
    for (let i = 0; i < 200; i++)
      diffIds.push((await room.unpack(file(`f${String(i)}`), file('top', String(i)))).diffId);
    const at = target(room);
    await room.snapshots.prepare(room.op, 'c1', diffIds);
    try {
      await room.snapshots.mount(room.op, 'c1', at);
    } catch (error) {
      if (!overlayByLayer) throw error;
      t.skip(`this kernel has no lowerdir+: ${String(error)}`);
      return;
    }
    assert.equal(readdirSync(at).length, 201);
    assert.equal(readFileSync(join(at, 'top'), 'utf8'), '199');
    writeFileSync(join(at, 'mine'), 'x');
    assert.deepEqual(await mountPoints(room), [at]);
    await room.snapshots.unmount(room.op, at);
    await room.snapshots.remove(room.op, 'c1');
  });
}

test('a restarted daemon finds mounted snapshots, and holds their layers', needsRoot, async (t) => {
  const room = await openRoom(t);
  const { diffId } = await room.unpack(file('a'));
  const at = target(room);
  await room.snapshots.prepare(room.op, 'c1', [diffId]);
  await room.snapshots.mount(room.op, 'c1', at);
  mkdirSync(join(room.root, 'snapshots/.staging-0123456789abcdef/upper'), { recursive: true });
  await room.reopen();
  assert.deepEqual(readdirSync(join(room.root, 'snapshots')), ['c1']);
  await assert.rejects(room.layers.remove(room.op, diffId), { kind: 'FailedPrecondition', message: /in use/ });
  assert.equal(readFileSync(join(at, 'a'), 'utf8'), 'a', 'the layer of a running container stays');
  await room.snapshots.mount(room.op, 'c1', at);
  assert.deepEqual(await mountPoints(room), [at]);
  await room.snapshots.unmount(room.op, at);
  await room.snapshots.remove(room.op, 'c1');
  await room.layers.remove(room.op, diffId);
  assert.deepEqual(room.layerNames(), []);
});

test('mounted, taken off, mounted again in the same boot: what was written is there', needsRoot, async (t) => {
  const room = await openRoom(t);
  const { diffId } = await room.unpack(file('a'));
  const at = target(room);
  await room.snapshots.prepare(room.op, 'c1', [diffId]);
  await room.snapshots.mount(room.op, 'c1', at);
  writeFileSync(join(at, 'mine'), 'x');
  await room.snapshots.unmount(room.op, at);
  await room.snapshots.mount(room.op, 'c1', at);
  assert.equal(readFileSync(join(at, 'mine'), 'utf8'), 'x');
  await room.snapshots.unmount(room.op, at);

  const directory = join(room.root, 'snapshots/c1');
  const record = await readRecord(directory);
  writeFileSync(join(directory, 'snapshot.json'), JSON.stringify({ ...record, bootId: 'another' }));
  await assert.rejects(room.snapshots.mount(room.op, 'c1', at), { kind: 'FailedPrecondition', message: /went down/ });
  await room.snapshots.remove(room.op, 'c1');
});

test('a snapshot is not mounted in two places', needsRoot, async (t) => {
  const room = await openRoom(t);
  const { diffId } = await room.unpack(file('a'));
  const at = target(room);
  await room.snapshots.prepare(room.op, 'c1', [diffId]);
  await room.snapshots.mount(room.op, 'c1', at);
  await assert.rejects(room.snapshots.mount(room.op, 'c1', target(room, 'other')), { kind: 'FailedPrecondition' });
  await room.snapshots.unmount(room.op, at);
});

test('wrong ids, missing layers, missing snapshots, missing targets', needsRoot, async (t) => {
  const room = await openRoom(t);
  const { diffId } = await room.unpack(file('a'));
  const other = await room.unpack(file('b'));
  const { snapshots, op } = room;
  for (const id of ['', '..', '../outside', 'a/b', '.staging-1', 'x'.repeat(200)]) {
    await assert.rejects(snapshots.prepare(op, id, []), { kind: 'InvalidArgument' });
    await assert.rejects(snapshots.remove(op, id), { kind: 'InvalidArgument' });
  }
  await assert.rejects(snapshots.prepare(op, 'c1', [`sha256:${'0'.repeat(64)}`]), { kind: 'NotFound' });
  await assert.rejects(snapshots.mount(op, 'c1', target(room)), { kind: 'NotFound' });
  await assert.rejects(snapshots.usage(op, 'c1'), { kind: 'NotFound' });
  await snapshots.prepare(op, 'c1', [diffId]);
  await assert.rejects(snapshots.prepare(op, 'c1', [other.diffId]), { kind: 'AlreadyExists' });
  await assert.rejects(snapshots.mount(op, 'c1', join(room.base, 'no-target')), { kind: 'NotFound' });
  assert.deepEqual(await mountPoints(room), []);
  await snapshots.unmount(op, join(room.base, 'no-target'));
});

test('a snapshot whose record a power cut has emptied can still be removed', needsRoot, async (t) => {
  const room = await openRoom(t);
  const { diffId } = await room.unpack(file('a'));
  await room.snapshots.prepare(room.op, 'c1', [diffId]);
  writeFileSync(join(room.root, 'snapshots/c1/snapshot.json'), '');
  await room.reopen();
  await assert.rejects(room.snapshots.mount(room.op, 'c1', target(room)), { kind: 'NotFound' });
  await room.snapshots.remove(room.op, 'c1');
  assert.deepEqual(await room.snapshots.list(), []);
});

test('disk usage follows no link and enters no mount, whatever a container makes of its tree', needsRoot, async (t) => {
  const room = await openRoom(t);
  await room.snapshots.prepare(room.op, 'c1', []);
  const upper = join(room.root, 'snapshots/c1/upper');
  symlinkSync('/', join(upper, 'host'));
  mkdirSync(join(upper, 'mounted'));
  await room.mounts.bind(room.op, '/usr', join(upper, 'mounted'));
  try {
    const { inodes, bytes } = await room.snapshots.usage(room.op, 'c1');
    assert.equal(inodes, 3);
    assert.ok(bytes < 100_000, String(bytes));
  } finally {
    await room.mounts.unmount(room.op, join(upper, 'mounted'));
  }
});

test('what is mounted inside a snapshot blocks its removal and survives it', needsRoot, async (t) => {
  const room = await openRoom(t);
  await room.snapshots.prepare(room.op, 'c1', []);
  const mounted = join(join(room.root, 'snapshots/c1/upper'), 'mounted');
  mkdirSync(mounted);
  await room.mounts.bind(room.op, room.outside, mounted);
  try {
    await assert.rejects(room.snapshots.remove(room.op, 'c1'), { kind: 'Unavailable', message: /mounted/ });
  } finally {
    await room.mounts.unmount(room.op, mounted);
  }
  await room.snapshots.remove(room.op, 'c1');
});

test('a deep and wide tree is added up', needsRoot, async (t) => {
  const room = await openRoom(t);
  await room.snapshots.prepare(room.op, 'c1', []);
  let path = join(room.root, 'snapshots/c1/upper');
  for (let depth = 0; depth < 300; depth++) {
    path = join(path, 'd');
    mkdirSync(path);
    writeFileSync(join(path, 'f'), 'x');
  }
  assert.equal((await room.snapshots.usage(room.op, 'c1')).inodes, 601);
  // Hard links count once; the directory moved away while nobody looks is no error.
  renameSync(join(join(room.root, 'snapshots/c1/upper'), 'd/d'), join(room.base, 'away'));
  assert.equal((await room.snapshots.usage(room.op, 'c1')).inodes, 3);
  rmdirSync(target(room, 'unused'));
});

test('a container is made while the thread that unpacks layers waits for the disk', needsRoot, async (t) => {
  const room = await openRoom(t);
  const bottom = await room.unpack({ type: 'directory', path: 'd', mode: 0o701, uid: 5, gid: 6 }, file('d/a'));
  // Its `d` has no entry of its own: the one below has its mode and owner.
  const top = await room.unpack(file('d/b'));
  room.thread.run = () => new Promise(() => undefined);
  const at = target(room);
  await room.snapshots.prepare(room.op, 'c1', [bottom.diffId, top.diffId]);
  await room.snapshots.mount(room.op, 'c1', at);
  const { mode, uid, gid } = lstatSync(join(at, 'd'));
  assert.deepEqual([mode & 0o7777, uid, gid], [0o701, 5, 6]);
  await room.snapshots.unmount(room.op, at);
  await room.snapshots.remove(room.op, 'c1');
});
