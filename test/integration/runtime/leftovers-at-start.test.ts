import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { lstat, mkdir, rmdir, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { NamespaceMode } from '../../../src/cri/gen/api.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import { errnoOf } from '../../../src/lib/errors.ts';
import { execFile } from '../../../src/linux/exec.ts';
import { newSandboxId } from '../../../src/lib/ids.ts';
import { Cgroups, detectCgroups } from '../../../src/linux/cgroups.ts';
import { readMountinfo } from '../../../src/linux/mountinfo.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { container, op, pod, RuntimeFixture } from './runtime-fixture.ts';

const skip = process.getuid?.() !== 0 && 'needs root';

async function run(program: string, ...args: readonly string[]): Promise<void> {
  const { code, stderr } = await execFile(op, program, args);
  assert.equal(code, 0, `${program} ${args.join(' ')}: ${stderr}`);
}

async function isThere(path: string): Promise<boolean> {
  try {
    await lstat(path);
    return true;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false;
    throw error;
  }
}

async function pinNetns(path: string): Promise<void> {
  await writeFile(path, '');
  await run('unshare', '--net', 'mount', '--bind', '/proc/self/ns/net', path);
}

test('what is ours and nobody owns goes at the start, what looks like it and is others’ stays', { skip }, async () => {
  await using f = await RuntimeFixture.make();
  const { root } = f;
  const config = pod(root, 'lives');
  const leaks = await LeakCheck.begin(root.leakRoots());
  const sandboxId = await f.runSandbox(config);
  const alive = await f.runContainer(sandboxId, config, container('main', ['sleep', '100000']));
  const before = await f.status(alive);
  const cgroups = new Cgroups({ clock: systemClock, host: await detectCgroups() });

  const id = newSandboxId();
  const bundle = join(root.state, 'containers', id);
  const sandbox = join(root.state, 'sandboxes', id);
  const snapshot = join(root.data, 'snapshots', id);
  const exit = join(root.data, 'exits', id);
  const exitInMemory = join(root.state, 'exits', id);
  const netns = join(root.netnsDir, `gantry-${root.instance}-${id.slice(0, 16)}`);
  const group = `${root.cgroupParent}/pod${id}`;
  const inner = `${root.cgroupParent}/pod${sandboxId}/${id}`;
  // Others': another instance's namespace, names that are no ids, somebody's group.
  const theirNetns = join(root.netnsDir, `gantry-${root.instance}x-${id.slice(0, 16)}`);
  const theirFolder = join(root.state, 'sandboxes', 'not-an-id');
  const theirFile = join(root.data, 'exits', 'not-an-id');
  const theirGroup = `${root.cgroupParent}/somebody`;

  const sleeper = spawn('sleep', ['100000'], { stdio: 'ignore' });
  const ended = once(sleeper, 'exit');
  await f.restart(async () => {
    await mkdir(join(bundle, 'rootfs'), { recursive: true });
    await writeFile(join(bundle, 'config.json'), '{}');
    await mkdir(join(sandbox, 'shm'), { recursive: true });
    await run('mount', '-t', 'tmpfs', 'left', join(sandbox, 'shm'));
    await mkdir(join(snapshot, 'upper', 'deep'), { recursive: true });
    await writeFile(join(snapshot, 'upper', 'deep', 'file'), 'x');
    for (const name of ['work', 'lower']) await mkdir(join(snapshot, name));
    const layers = [`lowerdir=${snapshot}/lower`, `upperdir=${snapshot}/upper`, `workdir=${snapshot}/work`].join(',');
    await run('mount', '-t', 'overlay', 'left', '-o', layers, join(bundle, 'rootfs'));
    for (const path of [exit, exitInMemory]) await writeFile(path, '0');
    await pinNetns(netns);
    await cgroups.create(group);
    await cgroups.moveProcess(group, sleeper.pid ?? 0);
    await cgroups.create(inner);
    await pinNetns(theirNetns);
    await mkdir(theirFolder);
    await writeFile(theirFile, '0');
    await cgroups.create(theirGroup);
  });
  await f.runtime.recovered;

  assert.deepEqual((await ended)[1], 'SIGKILL');
  for (const path of [bundle, sandbox, snapshot, exit, exitInMemory, netns])
    assert.equal(await isThere(path), false, path);
  for (const path of [group, inner]) assert.equal(await cgroups.exists(path), false, path);
  assert.deepEqual(
    (await readMountinfo()).filter(({ source }) => source === 'left'),
    [],
  );
  for (const path of [theirNetns, theirFolder, theirFile]) assert.equal(await isThere(path), true, path);
  assert.equal(await cgroups.exists(theirGroup), true);
  assert.deepEqual(await f.status(alive), before);
  assert.equal((await f.exec(alive, 'echo', 'here')).stdout, 'here\n');

  await run('umount', theirNetns);
  for (const path of [theirNetns, theirFile]) await unlink(path);
  await rmdir(theirFolder);
  await cgroups.remove(op, theirGroup);
  await f.endPod(sandboxId);
  await leaks.assertNone();
});

test(
  'a pod whose records and ledger are lost altogether: its processes end, and their ends leave nothing',
  { skip },
  async () => {
    await using f = await RuntimeFixture.make();
    const { root } = f;
    const leaks = await LeakCheck.begin(root.leakRoots());
    const config = pod(root, 'lost', { pid: NamespaceMode.POD });
    const sandboxId = await f.runSandbox(config);
    await f.runContainer(sandboxId, config, container('main', ['sleep', '100000']));
    await f.restart(() => {
      for (const path of [join(root.data, 'runtime.db'), join(root.state, 'volatile.db')]) {
        using db = new DatabaseSync(path);
        const tables = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all() as { name: string }[];
        for (const { name } of tables) {
          if (['sandboxes', 'containers', 'ledger'].includes(name)) db.exec(`DELETE FROM ${name}`);
        }
      }
      return Promise.resolve();
    });
    await f.runtime.recovered;
    assert.deepEqual(await f.runtime.inspector.pendingWork(op), []);
    // A monitor that lived on would write the exit file a moment later.
    await systemClock.sleep(1_000);
    await leaks.assertNone();
  },
);
