import assert from 'node:assert/strict';
import { mkdir, readFile, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { execFile } from '../../../src/linux/exec.ts';
import { mountsBelow, readMountinfo } from '../../../src/linux/mountinfo.ts';
import { eventually, Gantryd, op, podOf } from '../../support/gantryd.ts';
import { LeakCheck } from '../../support/leak-check.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const VOLUMES = 'volumes/kubernetes.io~empty-dir';

async function run(program: string, ...args: readonly string[]): Promise<void> {
  const { code, stderr } = await execFile(op, program, args);
  assert.equal(code, 0, `${program} ${args.join(' ')}: ${stderr}`);
}

describe('what is mounted inside a volume survives the volume', { skip }, () => {
  let daemon: Gantryd;
  let leaks: LeakCheck;
  /** Three folders whose files must outlive the pod: on the volumes' own file system, on another one, and one in memory. */
  let sameFs: string;
  let otherFs: string;

  before(async () => {
    daemon = await Gantryd.withImage();
    sameFs = join(daemon.root.data, 'precious');
    otherFs = join(daemon.root.dir, 'other');
    await mkdir(join(sameFs, 'deep'), { recursive: true });
    await mkdir(otherFs);
    await run('mount', '-t', 'tmpfs', 'test-share', otherFs);
    await mkdir(join(otherFs, 'deep'));
    for (const folder of [sameFs, otherFs]) {
      await writeFile(join(folder, 'file'), `in ${folder}`);
      await writeFile(join(folder, 'deep/file'), 'deep');
    }
    leaks = await LeakCheck.begin(daemon.root.leakRoots([{ path: daemon.root.logRoot }]));
  });
  after(async () => {
    // The root's own disposal unmounts what a failed test has left, before it deletes anything.
    await daemon[Symbol.asyncDispose]();
  });

  const volumePath = async (name: string, volume: string): Promise<string> => {
    const uid = (await daemon.pod(name))?.metadata.uid;
    assert.ok(uid);
    return join(daemon.root.podsDir, uid, VOLUMES, volume);
  };

  const isThere = async (path: string): Promise<boolean> =>
    await stat(path).then(
      () => true,
      () => false,
    );

  const assertUntouched = async (): Promise<void> => {
    for (const folder of [sameFs, otherFs]) {
      assert.deepEqual((await readdir(folder)).sort(), ['deep', 'file']);
      assert.equal(await readFile(join(folder, 'file'), 'utf8'), `in ${folder}`);
      assert.equal(await readFile(join(folder, 'deep/file'), 'utf8'), 'deep');
    }
  };

  test('a tmpfs, a bind of the same file system and a bind of another one: named, left alone, finished by itself', async () => {
    const volumes = [
      { name: 'data', emptyDir: {} },
      { name: 'plain', emptyDir: {} },
    ];
    const volumeMounts = [
      { name: 'data', mountPath: '/data' },
      { name: 'plain', mountPath: '/plain' },
    ];
    const script =
      'mkdir -p /data/a/b /plain/x; echo old > /data/a/b/file; trap "exit 0" TERM; while :; do sleep 1 & wait $!; done';
    await daemon.apply(podOf('blocked', [{ volumeMounts, script }], { volumes }), '--wait');
    const data = await volumePath('blocked', 'data');
    const plain = await volumePath('blocked', 'plain');
    const mounted = ['memory', 'a/same', 'a/b/other'].map((name) => join(data, name));
    const [memory = '', same = '', other = ''] = mounted;
    for (const path of mounted) await mkdir(path);
    await run('mount', '-t', 'tmpfs', 'test-memory', memory);
    await writeFile(join(memory, 'file'), 'in memory');
    await run('mount', '--bind', sameFs, same);
    await run('mount', '--bind', otherFs, other);

    const deleted = await daemon.cli(['delete', 'pod', 'blocked']);
    assert.equal(deleted.code, 0, deleted.stderr);
    assert.match(deleted.stdout, /pod "blocked" deleted/);
    for (const path of mounted) assert.ok(deleted.stderr.includes(path), deleted.stderr);
    assert.match(deleted.stderr, /volume data|data/);
    assert.match(deleted.stderr, /test-memory/);
    await assertUntouched();
    assert.equal(await readFile(join(memory, 'file'), 'utf8'), 'in memory');
    assert.equal(await isThere(plain), false, 'a volume without a mount goes');

    const story = await daemon.gantry('explain', 'pod', 'blocked');
    assert.match(story, /Still pending:/);
    for (const path of mounted) assert.ok(story.slice(story.indexOf('Still pending')).includes(path), story);

    // The pod is gone from the API: a successor of the name starts, and ends, while the block lasts.
    await daemon.apply(
      podOf(
        'blocked',
        [{ volumeMounts, script: 'touch /data/new; trap "exit 0" TERM; while :; do sleep 1 & wait $!; done' }],
        { volumes },
      ),
      '--wait',
    );
    assert.notEqual(await volumePath('blocked', 'data'), data);
    assert.equal(await daemon.gantry('exec', 'blocked', '--', 'ls', '/data'), 'new\n');
    const second = await daemon.cli(['delete', 'pod', 'blocked']);
    assert.equal(second.code, 0);
    assert.equal(second.stderr, '', 'its own volumes are not blocked');

    // A restart forgets nothing.
    await daemon.restart('SIGKILL');
    await assertUntouched();
    await run('umount', memory);
    await run('umount', same);
    await new Promise((next) => setTimeout(next, 3_000));
    assert.ok(await isThere(other), 'one mount is left');
    await assertUntouched();
    await run('umount', other);
    const uid = data.split('/').at(-4) ?? '';
    await eventually(
      () => isThere(join(daemon.root.podsDir, uid)),
      (there) => !there,
      'the end of the volume',
    );
    await assertUntouched();
    const after = await daemon.gantry('explain', 'pod', 'blocked', '--uid', uid);
    assert.match(after, /volume data .*is torn down/);
    assert.match(after, /Nothing is pending\./);
    await leaks.assertNone();
  });

  test('within seconds after the mount is gone, without a restart and without being asked', async () => {
    const volumes = [{ name: 'data', emptyDir: {} }];
    await daemon.apply(
      podOf('waits', [{ volumeMounts: [{ name: 'data', mountPath: '/data' }] }], { volumes }),
      '--wait',
    );
    const data = await volumePath('waits', 'data');
    await mkdir(join(data, 'share'));
    await run('mount', '--bind', otherFs, join(data, 'share'));
    const { stderr } = await daemon.cli(['delete', 'pod', 'waits', '--grace-period=2']);
    assert.ok(stderr.includes(join(data, 'share')), stderr);
    await new Promise((next) => setTimeout(next, 8_000));
    await run('umount', join(data, 'share'));
    const began = performance.now();
    await eventually(
      () => isThere(data),
      (there) => !there,
      'the end of the volume',
    );
    assert.ok(performance.now() - began < 60_000, 'seconds, not a back-off of minutes');
    await assertUntouched();
    await leaks.assertNone();
  });

  test('mounted right on a memory volume and on an emptyDir itself', async () => {
    const volumes = [
      { name: 'data', emptyDir: {} },
      { name: 'memory', emptyDir: { medium: 'Memory', sizeLimit: '8Mi' } },
    ];
    const volumeMounts = [
      { name: 'data', mountPath: '/data' },
      { name: 'memory', mountPath: '/memory' },
    ];
    await daemon.apply(
      podOf(
        'onto',
        [{ volumeMounts, script: 'echo m > /memory/file; trap "exit 0" TERM; while :; do sleep 1 & wait $!; done' }],
        { volumes },
      ),
      '--wait',
    );
    const data = await volumePath('onto', 'data');
    const memory = await volumePath('onto', 'memory');
    await run('mount', '--bind', sameFs, data);
    await mkdir(join(memory, 'inside'));
    await run('mount', '--bind', otherFs, join(memory, 'inside'));
    const { stderr } = await daemon.cli(['delete', 'pod', 'onto', '--grace-period=2']);
    assert.ok(stderr.includes(data) && stderr.includes(join(memory, 'inside')), stderr);
    await assertUntouched();
    assert.equal(await readFile(join(memory, 'file'), 'utf8'), 'm\n', 'files beside the mount stay too');
    await run('umount', join(memory, 'inside'));
    await run('umount', data);
    await eventually(
      async () => [await isThere(data), await isThere(memory)],
      (there) => !there.some(Boolean),
      'the end of both volumes',
    );
    await assertUntouched();
    await leaks.assertNone();
    assert.deepEqual(mountsBelow(await readMountinfo(), daemon.root.podsDir), []);
  });

  test('links out of a volume are not followed, and a hostPath is never deleted', async () => {
    const volumes = [
      { name: 'data', emptyDir: {} },
      { name: 'host', hostPath: { path: sameFs, type: 'Directory' } },
    ];
    const volumeMounts = [
      { name: 'data', mountPath: '/data' },
      { name: 'host', mountPath: '/host' },
    ];
    const script = `ln -s ${sameFs} /data/link; ln -s /host /data/host; cat /host/file; trap "exit 0" TERM; while :; do sleep 1 & wait $!; done`;
    await daemon.apply(podOf('links', [{ volumeMounts, script }], { volumes }), '--wait');
    await eventually(
      () => daemon.gantry('logs', 'links'),
      (text) => text === `in ${sameFs}`,
      'what it read',
    );
    const { stderr } = await daemon.cli(['delete', 'pod', 'links', '--grace-period=2']);
    assert.equal(stderr, '');
    await assertUntouched();
    await leaks.assertNone();
  });
});
