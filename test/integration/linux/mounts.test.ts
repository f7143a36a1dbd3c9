import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { systemClock } from '../../../src/lib/clock.ts';
import { kindOf } from '../../../src/lib/errors.ts';
import { HangSafe } from '../../../src/linux/hang-safe.ts';
import { canIdMapLayers } from '../../../src/linux/mapped-overlay.ts';
import { holdersOf } from '../../../src/linux/mount-holders.ts';
import { Mounts } from '../../../src/linux/mounts.ts';
import { realSyscalls } from '../../../src/linux/syscalls.ts';
import { UserNamespaceHolder } from '../../../src/linux/user-namespace.ts';
import { needsRoot, op, Scratch } from './scratch.ts';

test('tmpfs: mounted, busy, detached, not mounted', needsRoot, async () => {
  using scratch = new Scratch();
  const mounts = new Mounts({ clock: systemClock });
  const target = scratch.dir('t');
  assert.equal(await mounts.unmount(op, target), 'not-mounted');
  assert.equal(await mounts.unmount(op, scratch.join('missing')), 'not-mounted');
  await mounts.mount(op, { source: 'tmpfs', target, type: 'tmpfs', flags: ['nosuid', 'noexec'], data: 'size=64k' });
  const [info] = scratch.mounts();
  assert.deepEqual([info?.mountPoint, info?.fsType], [target, 'tmpfs']);
  assert.ok(info?.options.includes('nosuid') && info.superOptions.includes('size=64k'));
  const fd = openSync(scratch.file('t/open'), 'r');
  await assert.rejects(mounts.unmount(op, target), (error) => kindOf(error) === 'Unavailable');
  assert.equal(await mounts.unmount(op, target, { detach: true }), 'unmounted');
  closeSync(fd);
  assert.deepEqual(scratch.mounts(), []);
  await assert.rejects(mounts.mount(op, { source: 'x', target: scratch.join('missing'), type: 'tmpfs' }), {
    kind: 'NotFound',
  });
});

test('binds: private, read-only all the way down, recursive', needsRoot, async () => {
  using scratch = new Scratch();
  const mounts = new Mounts({ clock: systemClock });
  scratch.file('source/file');
  const nested = scratch.dir('source/nested');
  await mounts.mount(op, { source: 'tmpfs', target: nested, type: 'tmpfs' });
  const target = scratch.dir('target');
  await mounts.bind(op, scratch.join('source'), target, { recursive: true, readOnly: true });
  for (const path of ['target/new', 'target/nested/new']) {
    assert.throws(() => writeFileSync(scratch.join(path), ''), { code: 'EROFS' });
  }
  writeFileSync(`${nested}/still-writable`, '');
  assert.ok(existsSync(`${target}/nested/still-writable`));
  assert.deepEqual(
    scratch.mounts().filter(({ mountPoint, shared }) => mountPoint.startsWith(target) && shared !== undefined),
    [],
  );
  const shown = scratch.dir('shown');
  await mounts.bind(op, scratch.join('source'), shown, { recursive: true, propagation: 'rshared' });
  assert.equal(
    scratch.mounts().filter(({ mountPoint, shared }) => mountPoint.startsWith(shown) && shared !== undefined).length,
    2,
  );
  for (const path of [target, shown]) assert.equal(await mounts.unmountAll(op, path, { detach: true }), 'unmounted');
});

for (const overlayByLayer of [undefined, false]) {
  test(
    `overlay of 200 layers, ${overlayByLayer === false ? 'as mount options' : 'as the kernel likes it'}`,
    needsRoot,
    async () => {
      using scratch = new Scratch();
      const mounts = new Mounts({ clock: systemClock, ...(overlayByLayer === undefined ? {} : { overlayByLayer }) });
      const lowerDirs = Array.from({ length: 200 }, (_x, i) =>
        scratch.dir('layers', 'a-rather-long-layer-name', String(i)),
      );
      scratch.file('layers/a-rather-long-layer-name/0/who', 'top');
      scratch.file('layers/a-rather-long-layer-name/199/who', 'bottom');
      const [upperDir, workDir, target] = [scratch.dir('upper'), scratch.dir('work'), scratch.dir('merged')];
      await mounts.overlay(op, { lowerDirs, upperDir, workDir, target });
      assert.equal(readFileSync(`${target}/who`, 'utf8'), 'top');
      writeFileSync(`${target}/new`, '');
      assert.equal(await mounts.unmount(op, target), 'unmounted');
      assert.deepEqual(readdirSync(upperDir), ['new']);
      assert.deepEqual(readdirSync(scratch.path).sort(), ['layers', 'merged', 'upper', 'work']);
      await assert.rejects(mounts.overlay(op, { lowerDirs: [scratch.join('missing')], target }), { kind: 'NotFound' });
    },
  );
}

test('overlay with the owners that a user namespace has; nothing but the overlay is left', needsRoot, async (t) => {
  using scratch = new Scratch();
  const [folder, other] = [scratch.dir('folder'), scratch.dir('other')];
  if (!(await canIdMapLayers(op, systemClock, { folder, other }))) {
    t.skip('this kernel maps no layers');
    return;
  }
  assert.deepEqual(scratch.mounts(), []);
  writeFileSync(`${folder}/who`, 'top');
  const range = [{ containerId: 0, hostId: 200_000, length: 65_536 }];
  await using holder = await UserNamespaceHolder.make(op, { clock: systemClock }, { uids: range, gids: range }, []);
  const request = {
    lowerDirs: [folder, other],
    target: scratch.dir('merged'),
    userNamespace: `/proc/${String(holder.pid)}/ns/user`,
  };
  // Where a thread's warnings come out.
  const words = t.mock.method(process.stderr, 'write');
  const mounts = new Mounts({ clock: systemClock });
  await mounts.overlay(op, { ...request, upperDir: scratch.dir('upper'), workDir: scratch.dir('work') });
  assert.deepEqual(
    scratch.mounts().map(({ mountPoint }) => mountPoint),
    [request.target],
  );
  assert.deepEqual([statSync(`${request.target}/who`).uid, statSync(`${folder}/who`).uid], [200_000, 0]);
  assert.equal(await mounts.unmount(op, request.target), 'unmounted');
  await mounts.overlay(op, request);
  assert.equal(await mounts.unmount(op, request.target), 'unmounted');

  const missing = { ...request, lowerDirs: [folder, scratch.join('missing')] };
  await assert.rejects(mounts.overlay(op, missing), { kind: 'NotFound' });
  await assert.rejects(mounts.overlay(op, { ...request, options: ['no-such-option'] }), /2 layers.*no-such-option/);
  assert.deepEqual(scratch.mounts(), []);
  assert.deepEqual(
    words.mock.calls.map(({ arguments: [text] }) => String(text)),
    [],
  );
});

test('a dead share: stat hangs in the helper only, detaching works', needsRoot, async (t) => {
  using scratch = new Scratch();
  if (!existsSync('/dev/fuse')) {
    t.skip('no FUSE');
    return;
  }
  const fuse = openSync('/dev/fuse', 'r+');
  t.after(() => {
    closeSync(fuse);
  });
  const target = scratch.dir('nas');
  const data = `fd=${String(fuse)},rootmode=40000,user_id=0,group_id=0`;
  await realSyscalls().mount('dead-server', target, 'fuse', 6, data);
  const hangSafe = new HangSafe({ clock: systemClock });
  t.after(() => {
    hangSafe.close();
  });
  const controller = new AbortController();
  const hung = hangSafe.stat({ ...op, signal: controller.signal }, target);
  const fine = await hangSafe.statfs(op, scratch.path);
  assert.ok(fine.totalBytes > 0);
  controller.abort(new Error('long enough'));
  await assert.rejects(hung, /long enough/);
  assert.equal((await hangSafe.stat(op, scratch.path)).mode & 0o170000, 0o040000);
  await assert.rejects(hangSafe.stat(op, scratch.join('missing')), { kind: 'NotFound' });
  const mounts = new Mounts({ clock: systemClock, hangSafe });
  assert.equal(await mounts.unmount(op, target, { detach: true }), 'unmounted');
});

test('who else has a mount', needsRoot, async (t) => {
  using scratch = new Scratch();
  const mounts = new Mounts({ clock: systemClock });
  const target = scratch.dir('t');
  await mounts.mount(op, { source: 'wanted', target, type: 'tmpfs' });
  const child = spawn('unshare', ['-m', '--propagation', 'private', 'sh', '-c', 'echo ready; exec sleep 1000'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => child.kill('SIGKILL'));
  await once(child.stdout, 'data');
  await mounts.unmount(op, target, { detach: true });
  const holders = await holdersOf({ mountPoint: target });
  assert.deepEqual(
    holders.map(({ holder, info }) => [holder.pid, info.source]),
    [[child.pid, 'wanted']],
  );
});
