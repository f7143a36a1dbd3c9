import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { findProgram } from '../../../src/lib/find-program.ts';
import { execFile } from '../../../src/linux/exec.ts';
import { ContainerState } from '../../../src/cri/gen/api.ts';
import { makeBusyboxRootfs } from '../../../scripts/busybox-rootfs.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { TempRoot } from '../../support/temp-root.ts';
import { DaemonProcess, eventually } from './daemon-process.ts';
import { container, IMAGE, op, openRuntime, pod } from './runtime-fixture.ts';

const skip = process.getuid?.() !== 0 ? 'needs root' : await withoutCriu();

/** Why no checkpoint can be made here; false where one can. */
async function withoutCriu(): Promise<string | false> {
  const criu = await findProgram('criu');
  if (criu === undefined) return 'needs criu';
  const { code } = await execFile(op, criu, ['check']);
  if (code !== 0) return 'criu does not work on this kernel';
  return (await crunLacksLibrary()) && 'crun needs libcriu.so.2';
}

/** crun, which is the first choice on cgroup v2, does not work with the program but with a library. */
async function crunLacksLibrary(): Promise<boolean> {
  if ((process.env['GANTRY_TEST_OCI_RUNTIME'] ?? 'crun') !== 'crun' || !existsSync('/sys/fs/cgroup/cgroup.controllers'))
    return false;
  if ((await findProgram('crun')) === undefined) return false;
  const { stdout } = await execFile(op, 'ldconfig', ['-p']);
  return !stdout.includes('libcriu.so.2');
}

const COUNTING = 'i=0; while :; do i=$((i+1)); echo $i > /count; sleep 0.2; done';
/** Some work for CRIU: 60 MB. */
const COUNTING_BIG = `exec awk 'BEGIN { big = sprintf("%60000000s", "x"); while (1) { print ++i > "/count"; close("/count"); system("sleep 0.2") } }'`;

describe('CheckpointContainer', { skip }, () => {
  let root: TempRoot;
  let daemon: DaemonProcess;
  let leaks: LeakCheck;
  let places: string;

  before(async () => {
    root = await TempRoot.make();
    const opened = await openRuntime(root);
    const rootfs = join(root.dir, 'rootfs');
    await mkdir(rootfs);
    await makeBusyboxRootfs(rootfs);
    await mkdir(join(rootfs, 'old'));
    for (const name of ['old/a', 'gone', 'kept']) await writeFile(join(rootfs, name), name);
    await opened.runtime.images.import(op, { kind: 'rootfs', path: rootfs, name: IMAGE });
    await opened.close();
    daemon = new DaemonProcess(root);
    await daemon.start();
    leaks = await LeakCheck.begin(root.leakRoots());
    places = join(root.dir, 'checkpoints');
    await mkdir(places);
  });
  after(async () => {
    await daemon[Symbol.asyncDispose]();
    await root[Symbol.asyncDispose]();
  });

  async function run(name: string, script: string): Promise<{ podSandboxId: string; id: string }> {
    const sandboxConfig = pod(root, name);
    const { podSandboxId } = await daemon.cri.runtime.runPodSandbox(op, { config: sandboxConfig, runtimeHandler: '' });
    const config = container('main', ['sh', '-c', script]);
    const { containerId } = await daemon.cri.runtime.createContainer(op, { podSandboxId, config, sandboxConfig });
    await daemon.cri.runtime.startContainer(op, { containerId });
    return { podSandboxId, id: containerId };
  }

  async function end(podSandboxId: string): Promise<void> {
    await daemon.cri.runtime.stopPodSandbox(op, { podSandboxId });
    await daemon.cri.runtime.removePodSandbox(op, { podSandboxId });
    await leaks.assertNone();
  }

  async function exec(containerId: string, ...cmd: readonly string[]): Promise<string> {
    const { stdout } = await daemon.cri.runtime.execSync(op, { containerId, cmd: [...cmd], timeout: 30n });
    return Buffer.from(stdout).toString();
  }

  async function goesOn(id: string): Promise<void> {
    const count = async (): Promise<number> => Number(await exec(id, 'cat', '/count'));
    const then = await count();
    await eventually(count, (now) => now > then, 'the container runs');
  }

  const checkpoint = (containerId: string, location: string, timeout = 0n): Promise<unknown> =>
    daemon.cri.runtime.checkpointContainer(op, { containerId, location, timeout });

  test('memory, open files and what was changed are in one archive, and the container goes on', async () => {
    const changes = 'echo new > /kept; rm /gone; rm -r /old; mkdir /old; echo b > /old/b; ln -s /etc/passwd /link';
    const { podSandboxId, id } = await run('whole', `${changes}; touch /ready; ${COUNTING}`);
    await eventually(
      () => exec(id, 'ls', '/'),
      (names) => names.includes('ready'),
      'the changes are made',
    );
    const location = join(places, 'whole.tar');
    // Both wait for one and the same.
    await Promise.all([checkpoint(id, location), checkpoint(id, location)]);
    await goesOn(id);
    assert.deepEqual(await readdir(places), ['whole.tar']);
    assert.equal((await stat(location)).mode & 0o777, 0o600);
    const into = join(root.dir, 'unpacked');
    await mkdir(into);
    const { code, stderr } = await execFile(op, 'tar', ['-xf', location, '-C', into]);
    assert.equal(code, 0, stderr);
    assert.deepEqual((await readdir(into)).sort(), [
      'checkpoint',
      'config.dump',
      'dump.log',
      'rootfs-diff.tar',
      'spec.dump',
      'stats-dump',
    ]);
    const images = await readdir(join(into, 'checkpoint'));
    for (const name of ['inventory.img', 'pstree.img', 'core-1.img', 'pages-1.img'])
      assert.ok(images.includes(name), name);
    const config = JSON.parse(await readFile(join(into, 'config.dump'), 'utf8')) as Record<string, string>;
    assert.deepEqual([config['id'], config['name'], config['rootfsImageName']], [id, 'main', IMAGE]);
    const spec = JSON.parse(await readFile(join(into, 'spec.dump'), 'utf8')) as { process: { args: string[] } };
    assert.equal(spec.process.args[0], 'sh');
    const listed = await execFile(op, 'tar', ['-tf', join(into, 'rootfs-diff.tar')]);
    const names = listed.stdout.split('\n');
    for (const name of ['kept', '.wh.gone', 'old/', 'old/.wh..wh..opq', 'old/b', 'link']) {
      assert.ok(names.includes(name), `${name} in ${listed.stdout}`);
    }
    assert.ok(!names.includes('gone') && !names.includes('bin/sh'));
    await end(podSandboxId);
  });

  test('refused in words, and nothing is left: no such container, no path, no folder, one that has ended', async () => {
    const { podSandboxId, id } = await run('refused', COUNTING);
    await assert.rejects(checkpoint('none', join(places, 'x.tar')), { kind: 'NotFound' });
    await assert.rejects(checkpoint(id, 'x.tar'), { kind: 'InvalidArgument' });
    await assert.rejects(checkpoint(id, join(places, 'none', 'x.tar')), { kind: 'NotFound' });
    await goesOn(id);
    await daemon.cri.runtime.stopContainer(op, { containerId: id, timeout: 0n });
    await assert.rejects(checkpoint(id, join(places, 'x.tar')), { kind: 'FailedPrecondition' });
    assert.ok(!(await readdir(places)).some((name) => name.startsWith('x') || name.startsWith('.')));
    await end(podSandboxId);
  });

  test('what a daemon that is killed was writing goes with its next start, and the container goes on', async () => {
    const { podSandboxId, id } = await run('killed', COUNTING_BIG);
    await eventually(
      () => exec(id, 'ls', '/'),
      (names) => names.includes('count'),
      'its memory is full',
    );
    const begun = checkpoint(id, join(places, 'killed.tar')).catch(() => undefined);
    await eventually(
      () => readdir(places),
      (names) => names.some((name) => name.startsWith('.checkpoint-')),
      'it is begun',
    );
    await daemon.restart();
    await begun;
    await eventually(
      () => readdir(places),
      (names) => !names.some((name) => name.startsWith('.')),
      'nothing is left of it',
    );
    const { status } = await daemon.cri.runtime.containerStatus(op, { containerId: id, verbose: false });
    assert.equal(status?.state, ContainerState.CONTAINER_RUNNING);
    await goesOn(id);
    await checkpoint(id, join(places, 'again.tar'));
    await goesOn(id);
    await end(podSandboxId);
  });

  test('a limit that passes is told, the work goes on, and the next call gets its result', async () => {
    const { podSandboxId, id } = await run('late', COUNTING_BIG);
    await eventually(
      () => exec(id, 'ls', '/'),
      (names) => names.includes('count'),
      'its memory is full',
    );
    const location = join(places, 'late.tar');
    const signal = AbortSignal.timeout(100);
    const early = daemon.cri.runtime.checkpointContainer({ ...op, signal }, { containerId: id, location, timeout: 0n });
    await assert.rejects(early);
    await checkpoint(id, location);
    assert.ok((await stat(location)).size > 60_000_000);
    await goesOn(id);
    await end(podSandboxId);
  });
});
