import assert from 'node:assert/strict';
import { mkdtemp, readdir, rmdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { messageOf } from '../lib/errors.ts';
import { FakeClock } from '../lib/fake-clock.ts';
import { silentLog } from '../lib/log.ts';
import { errnoError } from './errno.ts';
import { fakeSyscalls } from './fake-syscalls.ts';
import { Mounts, pathIsLocal } from './mounts.ts';
import { parseMountinfo } from './mountinfo.ts';
import { canMountByLayer } from './overlay-mount.ts';

const op = { signal: new AbortController().signal, log: silentLog };
const clock = new FakeClock();
const noHelper = {
  umount2: () => Promise.reject(new Error('not asked')),
  mountFrom: () => Promise.reject(new Error('not asked')),
};

test('layer by layer, the top one first', async () => {
  const { calls, syscalls } = fakeSyscalls();
  const mounts = new Mounts({ clock, syscalls, hangSafe: noHelper, overlayByLayer: true });
  await mounts.overlay(op, {
    lowerDirs: ['/b', '/a'],
    upperDir: '/u',
    workDir: '/w',
    target: '/t',
    options: ['volatile'],
  });
  assert.deepEqual(
    calls.filter(({ name }) => name === 'fsconfigString').map(({ args }) => args.slice(1).join('=')),
    ['lowerdir+=/b', 'lowerdir+=/a', 'upperdir=/u', 'workdir=/w'],
  );
  assert.deepEqual(calls.map(({ name }) => name).slice(-5), [
    'fsconfigCreate',
    'fsmount',
    'moveMount',
    'close',
    'close',
  ]);
});

test("a failure carries the layer and the kernel's words, and closes what was opened", async () => {
  const { calls, syscalls } = fakeSyscalls({
    fsconfigString: (_fd, _key, value) =>
      value === '/a' ? Promise.reject(errnoError('ENOENT', 'fsconfig')) : Promise.resolve(),
    fsMessages: () => ["e overlay: failed to resolve '/a': -2"],
  });
  const mounts = new Mounts({ clock, syscalls, hangSafe: noHelper, overlayByLayer: true });
  await assert.rejects(mounts.overlay(op, { lowerDirs: ['/b', '/a'], target: '/t' }), (error) => {
    assert.match(messageOf(error), /2 layers on \/t: layer \/a: .*ENOENT.*failed to resolve '\/a'/);
    return true;
  });
  assert.equal(calls.at(-1)?.name, 'close');
});

test('as options: escaped; with short names when they would not fit', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'gantry-overlay-'));
  const { calls, syscalls } = fakeSyscalls();
  const short: string[] = [];
  const hangSafe = {
    ...noHelper,
    mountFrom: async (_op: unknown, request: { directory: string; data: string }) => {
      short.push(request.data);
      assert.equal((await readdir(request.directory)).length, 300);
    },
  };
  const mounts = new Mounts({ clock, syscalls, hangSafe, overlayByLayer: false });
  const target = join(directory, 't');
  await mounts.overlay(op, { lowerDirs: ['/a:b', '/c,d'], upperDir: '/u,x', workDir: '/w', target });
  assert.equal(calls[0]?.args[4], 'lowerdir=/a\\:b:/c\\,d,upperdir=/u\\,x,workdir=/w');
  const lowerDirs = Array.from({ length: 300 }, (_x, i) => `/layers/0123456789abcdef/${String(i)}`);
  await mounts.overlay(op, { lowerDirs, target });
  assert.ok(short[0]?.startsWith('lowerdir=0:1:2:') && short[0].length < 4096);
  assert.deepEqual(await readdir(directory), []);
  await rmdir(directory);
});

test('the kernel is asked whether it takes layers one by one', async () => {
  const refuses = (): Promise<never> => Promise.reject(errnoError('EINVAL', 'fsconfig'));
  assert.equal(await canMountByLayer(fakeSyscalls({ fsconfigFlag: refuses }).syscalls), true);
  // Before 6.5 everything is taken as text.
  assert.equal(await canMountByLayer(fakeSyscalls().syscalls), false);
  const unknown = {
    fsconfigFlag: refuses,
    fsconfigString: refuses,
    fsMessages: () => ["e overlay: Unknown parameter 'lowerdir+'"],
  };
  assert.equal(await canMountByLayer(fakeSyscalls(unknown).syscalls), false);
});

test('the way to a path leads through a stranger', () => {
  const infos = parseMountinfo(`1 0 8:1 / / rw - ext4 a rw
2 1 0:2 / /nfs rw - nfs4 server:/ rw
3 2 0:3 / /nfs/tmp rw - tmpfs t rw
`);
  assert.equal(pathIsLocal(infos, '/nfs/tmp'), false);
  assert.equal(pathIsLocal(infos, '/nfs'), true);
  assert.equal(pathIsLocal(infos, '/nfs-not/x'), true);
});
