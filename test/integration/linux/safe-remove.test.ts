import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { FakeClock } from '../../../src/lib/fake-clock.ts';
import { removeTree } from '../../../src/linux/remove-tree.ts';
import { SafeRemove, type RemoveOutcome } from '../../../src/linux/safe-remove.ts';
import { realSyscalls } from '../../../src/linux/syscalls.ts';
import { needsRoot, op, run, Scratch } from './scratch.ts';

/** A volume with a few plain files, below a root. */
function volume(scratch: Scratch): { root: string; path: string } {
  scratch.file('pods/uid/vol/a');
  scratch.file('pods/uid/vol/sub/b');
  scratch.dir('pods/uid/vol/nas');
  return { root: scratch.join('pods'), path: scratch.join('pods/uid/vol') };
}

async function remove(request: Parameters<SafeRemove['remove']>[1]): Promise<RemoveOutcome> {
  const safeRemove = new SafeRemove({ clock: new FakeClock() });
  try {
    return await safeRemove.remove(op, request);
  } finally {
    safeRemove.close();
  }
}

function blockersOf(outcome: RemoveOutcome): Extract<RemoveOutcome, { kind: 'blocked' }>['blockers'] {
  assert.ok(outcome.kind === 'blocked', JSON.stringify(outcome));
  return outcome.blockers;
}

test('a tree with every kind of entry goes, and what links point to stays', needsRoot, async () => {
  using scratch = new Scratch();
  const request = volume(scratch);
  scratch.file('outside/precious');
  symlinkSync(scratch.join('outside'), `${request.path}/link`);
  symlinkSync(scratch.join('outside/precious'), `${request.path}/sub/link`);
  run('mkfifo', `${request.path}/fifo`);
  run('mknod', `${request.path}/null`, 'c', '1', '3');
  writeFileSync(Buffer.concat([Buffer.from(`${request.path}/`), Buffer.from([0xff, 0xfe, 0x20])]), 'no UTF-8');
  assert.deepEqual(await remove(request), { kind: 'removed', entries: 10 });
  assert.equal(existsSync(request.path), false);
  assert.ok(existsSync(scratch.join('outside/precious')));
  assert.deepEqual(await remove(request), { kind: 'absent' });
});

const MOUNTS: Record<string, (scratch: Scratch, at: string) => { sentinel: string; fsType: string }> = {
  tmpfs: (_scratch, at) => {
    run('mount', '-t', 'tmpfs', 'nas-server', at);
    writeFileSync(`${at}/precious`, 'x');
    return { sentinel: `${at}/precious`, fsType: 'tmpfs' };
  },
  'bind of the same file system': (scratch, at) => {
    const sentinel = scratch.file('elsewhere/precious');
    run('mount', '--bind', scratch.join('elsewhere'), at);
    return { sentinel, fsType: '' };
  },
  'bind of another file system': (scratch, at) => {
    const other = scratch.dir('other');
    run('mount', '-t', 'tmpfs', 'other', other);
    writeFileSync(`${other}/precious`, 'x');
    run('mount', '--bind', other, at);
    return { sentinel: `${other}/precious`, fsType: 'tmpfs' };
  },
  'bind of a file': (scratch, at) => {
    const sentinel = scratch.file('elsewhere/precious');
    writeFileSync(`${at}/file`, '');
    run('mount', '--bind', sentinel, `${at}/file`);
    return { sentinel, fsType: '' };
  },
  'stacked mounts': (_scratch, at) => {
    run('mount', '-t', 'tmpfs', 'lower', at);
    writeFileSync(`${at}/hidden`, 'x');
    run('mount', '-t', 'tmpfs', 'upper', at);
    writeFileSync(`${at}/precious`, 'x');
    return { sentinel: `${at}/precious`, fsType: 'tmpfs' };
  },
  'mount below an over-mount': (_scratch, at) => {
    mkdirSync(`${at}/deep`);
    run('mount', '-t', 'tmpfs', 'deep', `${at}/deep`);
    writeFileSync(`${at}/deep/precious`, 'x');
    run('mount', '-t', 'tmpfs', 'over', at);
    writeFileSync(`${at}/precious`, 'x');
    return { sentinel: `${at}/precious`, fsType: 'tmpfs' };
  },
};

for (const [name, mount] of Object.entries(MOUNTS)) {
  test(`${name}: refused untouched, finished after the unmount`, needsRoot, async () => {
    using scratch = new Scratch();
    const request = volume(scratch);
    const { sentinel, fsType } = mount(scratch, `${request.path}/nas`);
    const outcome = await remove(request);
    const [blocker] = blockersOf(outcome);
    assert.equal(blocker?.reason, 'mount');
    assert.ok(blocker.path.startsWith(`${request.path}/nas`), blocker.path);
    assert.ok(blocker.source);
    if (fsType !== '') assert.equal(blocker.fsType, fsType);
    assert.ok(blocker.message.includes(blocker.path) && blocker.message.includes(blocker.source));
    assert.ok(existsSync(sentinel));
    assert.ok(existsSync(`${request.path}/sub/b`), 'nothing is deleted while something is mounted');
    for (const { mountPoint } of scratch.mounts()) if (mountPoint.startsWith(request.path)) run('umount', mountPoint);
    assert.equal((await remove(request)).kind, 'removed');
    if (sentinel.startsWith(scratch.join('elsewhere')) || sentinel.startsWith(scratch.join('other'))) {
      assert.ok(existsSync(sentinel));
    }
  });
}

test('the volume itself is a mount point', needsRoot, async () => {
  using scratch = new Scratch();
  const request = volume(scratch);
  run('mount', '-t', 'tmpfs', 'mem', request.path);
  writeFileSync(`${request.path}/precious`, 'x');
  assert.equal(blockersOf(await remove(request))[0]?.path, request.path);
  assert.ok(existsSync(`${request.path}/precious`));
});

test('a mount between the root and the path', needsRoot, async () => {
  using scratch = new Scratch();
  const request = volume(scratch);
  run('mount', '-t', 'tmpfs', 'mem', scratch.join('pods/uid'));
  scratch.file('pods/uid/vol/precious');
  const [blocker] = blockersOf(await remove(request));
  assert.equal(blocker?.reason, 'mount');
  assert.ok(existsSync(scratch.join('pods/uid/vol/precious')));
});

test('mounted on one of its directories by another way: a bind of the volume elsewhere', needsRoot, async () => {
  using scratch = new Scratch();
  const request = volume(scratch);
  const elsewhere = scratch.dir('elsewhere');
  run('mount', '--bind', request.path, elsewhere);
  run('mount', '--make-private', elsewhere);
  run('mount', '-t', 'tmpfs', 'nas', `${elsewhere}/nas`);
  writeFileSync(`${elsewhere}/nas/precious`, 'x');
  const [blocker] = blockersOf(await remove(request));
  assert.equal(blocker?.path, `${elsewhere}/nas`);
  assert.ok(existsSync(`${elsewhere}/nas/precious`));
  run('umount', `${elsewhere}/nas`);
  // What is left of the bind is the volume itself, seen from elsewhere.
  assert.equal((await remove(request)).kind, 'removed');
});

test('a mount that appears during the deletion', needsRoot, async () => {
  using scratch = new Scratch();
  const request = volume(scratch);
  for (let i = 0; i < 300; i++) scratch.file(`pods/uid/vol/many/${String(i)}/file`);
  const elsewhere = scratch.file('elsewhere/precious');
  for (let i = 0; i < 200; i++) scratch.file(`elsewhere/${String(i)}`);
  let bound = '';
  let late = '';
  const outcome = await removeTree(realSyscalls(), request, {
    removed: (entries) => {
      if (entries !== 100) return;
      // Still there when a hundred are gone, in whatever order the file system gives them.
      [bound = '', late = ''] = readdirSync(`${request.path}/many`).map((name) => `${request.path}/many/${name}`);
      run('mount', '--bind', scratch.join('elsewhere'), bound);
      run('mount', '-t', 'tmpfs', 'late', late);
      writeFileSync(`${late}/precious`, 'x');
    },
  });
  const blockers = blockersOf(outcome);
  assert.deepEqual(
    blockers.filter(({ reason }) => reason !== 'mount'),
    [],
  );
  assert.deepEqual(blockers.map(({ path }) => path).sort(), [bound, late].sort());
  assert.equal(readdirSync(scratch.join('elsewhere')).length, 201);
  assert.ok(existsSync(elsewhere));
  assert.ok(existsSync(`${late}/precious`));
  for (const path of [bound, late]) run('umount', path);
  assert.equal((await remove(request)).kind, 'removed');
  assert.equal(readdirSync(scratch.join('elsewhere')).length, 201);
});

test('a directory swapped for a symbolic link during the deletion', needsRoot, async () => {
  using scratch = new Scratch();
  const request = volume(scratch);
  for (let i = 0; i < 100; i++) scratch.file(`pods/uid/vol/many/${String(i)}/file`);
  scratch.file('etc/passwd');
  const outcome = await removeTree(realSyscalls(), request, {
    removed: (entries) => {
      if (entries % 20 !== 0) return;
      const [victim] = readdirSync(`${request.path}/many`).filter((name) => !name.startsWith('moved'));
      if (victim === undefined) return;
      renameSync(`${request.path}/many/${victim}`, scratch.join(`moved-${victim}`));
      symlinkSync(scratch.join('etc'), `${request.path}/many/${victim}`);
    },
  });
  assert.ok(existsSync(scratch.join('etc/passwd')));
  if (outcome.kind === 'blocked') assert.equal((await remove(request)).kind, 'removed');
  assert.ok(existsSync(scratch.join('etc/passwd')));
});

test('a symbolic link on the way, or in the place of the volume', needsRoot, async () => {
  using scratch = new Scratch();
  scratch.file('elsewhere/vol/precious');
  scratch.dir('pods');
  symlinkSync(scratch.join('elsewhere'), scratch.join('pods/uid'));
  const request = { root: scratch.join('pods'), path: scratch.join('pods/uid/vol') };
  assert.equal(blockersOf(await remove(request))[0]?.reason, 'foreign-inode');
  assert.equal((await remove({ ...request, path: scratch.join('pods/uid') })).kind, 'removed');
  assert.ok(existsSync(scratch.join('elsewhere/vol/precious')));
});

test('the root may be reached through a symbolic link', needsRoot, async () => {
  using scratch = new Scratch();
  const request = volume(scratch);
  symlinkSync(request.root, scratch.join('alias'));
  const aliased = { root: scratch.join('alias'), path: scratch.join('alias/uid/vol') };
  run('mount', '-t', 'tmpfs', 'nas', `${request.path}/nas`);
  assert.equal(blockersOf(await remove(aliased))[0]?.path, scratch.join('alias/uid/vol/nas'));
  run('umount', `${request.path}/nas`);
  assert.equal((await remove(aliased)).kind, 'removed');
});

test('another inode than the one that was made there', needsRoot, async () => {
  using scratch = new Scratch();
  const request = { ...volume(scratch), expectedIno: 1 };
  assert.equal(blockersOf(await remove(request))[0]?.reason, 'foreign-inode');
  assert.ok(existsSync(`${request.path}/a`));
});

test('a tree deeper than the descriptors it keeps, and than a path may be long', needsRoot, async () => {
  using scratch = new Scratch();
  const request = volume(scratch);
  const calls = realSyscalls();
  let fd = calls.openat2(-100, request.path, { flags: 0 });
  for (let depth = 0; depth < 600; depth++) {
    calls.mkdirat(fd, 'directory-with-a-name', 0o700);
    const next = calls.openat2(fd, 'directory-with-a-name', { flags: 0 });
    calls.close(fd);
    fd = next;
  }
  calls.close(fd);
  assert.deepEqual(await remove(request), { kind: 'removed', entries: 605 });
});

test('twenty thousand files', needsRoot, async () => {
  using scratch = new Scratch();
  const request = volume(scratch);
  for (let d = 0; d < 20; d++) {
    mkdirSync(`${request.path}/${String(d)}`);
    for (let f = 0; f < 1000; f++) writeFileSync(`${request.path}/${String(d)}/${String(f)}`, '');
  }
  const safeRemove = new SafeRemove({ clock: new FakeClock() });
  const plan = await safeRemove.plan(op, request);
  assert.equal(plan.files, 20_002);
  assert.equal(plan.directories, 23);
  assert.deepEqual(plan.blockers, []);
  assert.deepEqual(await safeRemove.remove(op, request), { kind: 'removed', entries: 20_025 });
  safeRemove.close();
});

test('a mount that only another mount namespace has is named with its process', needsRoot, async () => {
  using scratch = new Scratch();
  const request = volume(scratch);
  const at = `${request.path}/nas`;
  const child = spawn(
    'unshare',
    [
      '-m',
      '--propagation',
      'private',
      'sh',
      '-c',
      'mount -t tmpfs foreign "$0" && echo mounted && exec sleep 1000',
      at,
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  try {
    await once(child.stdout, 'data');
    const [blocker] = blockersOf(await remove(request));
    assert.equal(blocker?.path, at);
    assert.equal(blocker.source, 'foreign');
    assert.equal(blocker.holders?.[0]?.pid, child.pid);
    assert.ok(existsSync(`${request.path}/a`));
    child.kill('SIGKILL');
    await once(child, 'exit');
    assert.equal((await remove(request)).kind, 'removed');
  } finally {
    child.kill('SIGKILL');
  }
});

test(
  'a mount that other namespaces have a copy of is named once; a copy that stays behind is named with its process',
  needsRoot,
  async () => {
    using scratch = new Scratch();
    const request = volume(scratch);
    const at = `${request.path}/nas`;
    run('mount', '-t', 'tmpfs', 'nas', at);
    const script = 'echo copied && exec sleep 1000';
    const child = spawn('unshare', ['-m', '--propagation', 'private', 'sh', '-c', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    try {
      await once(child.stdout, 'data');
      assert.deepEqual(
        blockersOf(await remove(request)).map(({ path, holders }) => ({ path, holders })),
        [{ path: at, holders: undefined }],
      );
      run('umount', at);
      assert.deepEqual(
        blockersOf(await remove(request)).map(({ path, holders }) => ({ path, pid: holders?.[0]?.pid })),
        [{ path: at, pid: child.pid }],
      );
      child.kill('SIGKILL');
      await once(child, 'exit');
      assert.equal((await remove(request)).kind, 'removed');
    } finally {
      child.kill('SIGKILL');
    }
  },
);

test('a process that uses what is mounted is named', needsRoot, async () => {
  using scratch = new Scratch();
  const request = volume(scratch);
  const at = `${request.path}/nas`;
  run('mount', '-t', 'tmpfs', 'nas', at);
  const child = spawn('sleep', ['1000'], { cwd: at });
  try {
    await once(child, 'spawn');
    const [blocker] = blockersOf(await remove(request));
    assert.deepEqual(blocker?.holders, [{ pid: child.pid, comm: 'sleep' }]);
  } finally {
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
});

test('an immutable file is named and the rest goes', needsRoot, async (t) => {
  using scratch = new Scratch();
  const request = volume(scratch);
  try {
    run('chattr', '+i', `${request.path}/sub/b`);
  } catch {
    t.skip('no immutable files on this file system');
    return;
  }
  const outcome = await remove(request);
  run('chattr', '-i', `${request.path}/sub/b`);
  const blockers = blockersOf(outcome);
  assert.deepEqual(
    blockers.map(({ path, reason }) => ({ path, reason })),
    [{ path: `${request.path}/sub/b`, reason: 'error' }],
  );
  assert.equal(existsSync(`${request.path}/a`), false);
  assert.equal((await remove(request)).kind, 'removed');
});

test('a dead network share inside neither hangs the deletion nor is touched', needsRoot, async (t) => {
  using scratch = new Scratch();
  const request = volume(scratch);
  if (!existsSync('/dev/fuse')) {
    t.skip('no FUSE');
    return;
  }
  const { openSync, closeSync } = await import('node:fs');
  const fuse = openSync('/dev/fuse', 'r+');
  try {
    await realSyscalls().mount(
      'dead-server',
      `${request.path}/nas`,
      'fuse',
      6,
      `fd=${String(fuse)},rootmode=40000,user_id=0,group_id=0`,
    );
    const [blocker] = blockersOf(await remove(request));
    assert.equal(blocker?.source, 'dead-server');
    assert.equal(blocker.fsType, 'fuse');
  } finally {
    run('umount', '-l', `${request.path}/nas`);
    closeSync(fuse);
  }
  assert.equal((await remove(request)).kind, 'removed');
});

test('an abort ends the walk', needsRoot, async () => {
  using scratch = new Scratch();
  const request = volume(scratch);
  const controller = new AbortController();
  const safeRemove = new SafeRemove({ clock: new FakeClock() });
  const going = safeRemove.remove({ ...op, signal: controller.signal }, request);
  controller.abort(new Error('enough'));
  await assert.rejects(going, /enough/);
  assert.notEqual((await safeRemove.remove(op, request)).kind, 'blocked');
  safeRemove.close();
});
