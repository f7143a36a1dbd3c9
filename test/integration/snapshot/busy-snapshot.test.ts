import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { mountsBelow, readMountinfo } from '../../../src/linux/mountinfo.ts';
import { file } from './archive.ts';
import { needsRoot, openRoom, type Room } from './room.ts';

/** Somebody's shell in the folder. */
async function visitor(directory: string): Promise<ChildProcess> {
  const child = spawn('sh', ['-c', 'echo here; read line'], { cwd: directory, stdio: ['pipe', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  return child;
}

async function leave(child: ChildProcess): Promise<void> {
  const left = once(child, 'exit');
  child.stdin?.end();
  await left;
}

async function mounted(room: Room): Promise<string> {
  const { diffId } = await room.unpack(file('a'));
  const at = join(room.base, 'target');
  mkdirSync(at);
  await room.snapshots.prepare(room.op, 'c1', [diffId]);
  await room.snapshots.mount(room.op, 'c1', at);
  return at;
}

const mountPoints = async (room: Room): Promise<string[]> =>
  mountsBelow(await readMountinfo(), room.base).map(({ mountPoint }) => mountPoint);

test('one that somebody is in is detached, who that is is told, and it can be removed', needsRoot, async (t) => {
  const room = await openRoom(t);
  const at = await mounted(room);
  const child = await visitor(at);
  try {
    await room.snapshots.unmount(room.op, at);
    assert.deepEqual(await mountPoints(room), []);
    assert.deepEqual(room.detached, [[at, `process ${String(child.pid)} (sh)`]]);
    await room.snapshots.unmount(room.op, at);
    await room.snapshots.remove(room.op, 'c1');
  } finally {
    await leave(child);
  }
});

test('one that somebody only passes through is unmounted as ever', needsRoot, async (t) => {
  const room = await openRoom(t);
  const at = await mounted(room);
  const child = await visitor(at);
  const unmounting = room.snapshots.unmount(room.op, at);
  await leave(child);
  await unmounting;
  assert.deepEqual(await mountPoints(room), []);
  assert.deepEqual(room.detached, []);
});

test('one in which something is mounted stays, with all of it, and says what that is', needsRoot, async (t) => {
  const room = await openRoom(t);
  const at = await mounted(room);
  const share = join(room.base, 'share');
  mkdirSync(share);
  writeFileSync(join(share, 'precious'), 'precious');
  mkdirSync(join(at, 'mnt'));
  await room.mounts.bind(room.op, share, join(at, 'mnt'));
  await assert.rejects(room.snapshots.unmount(room.op, at), {
    kind: 'Unavailable',
    message: new RegExp(`is mounted on ${join(at, 'mnt')}`),
  });
  assert.ok(existsSync(join(at, 'mnt', 'precious')));
  await room.mounts.unmount(room.op, join(at, 'mnt'));
  await room.snapshots.unmount(room.op, at);
  assert.equal(readFileSync(join(share, 'precious'), 'utf8'), 'precious');
  assert.deepEqual(room.detached, []);
});

test('what somebody else has mounted just there is not taken off as ours', needsRoot, async (t) => {
  const room = await openRoom(t);
  const at = await mounted(room);
  const share = join(room.base, 'share');
  mkdirSync(share);
  for (const isAlone of [false, true]) {
    await room.mounts.bind(room.op, share, at);
    const points = await mountPoints(room);
    await assert.rejects(room.snapshots.unmount(room.op, at), {
      kind: 'Unavailable',
      message: /on it, which somebody else has mounted/,
    });
    assert.deepEqual(await mountPoints(room), points);
    await room.mounts.unmount(room.op, at);
    if (!isAlone) await room.snapshots.unmount(room.op, at);
  }
  assert.deepEqual(await mountPoints(room), []);
});
