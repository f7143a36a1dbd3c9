import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { ContainerState, NamespaceMode, PodSandboxState, type ContainerStatus } from '../../../src/cri/gen/api.ts';
import type { ContainerConfig, PodSandboxConfig } from '../../../src/cri/gen/api.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { TempRoot } from '../../support/temp-root.ts';
import { makeBusyboxRootfs } from '../../../scripts/busybox-rootfs.ts';
import { DaemonProcess, eventually } from './daemon-process.ts';
import { container, IMAGE, op, openRuntime, pod } from './runtime-fixture.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
let root: TempRoot;
let daemon: DaemonProcess;
let leaks: LeakCheck;

before(async () => {
  if (skip !== false) return;
  root = await TempRoot.make();
  const opened = await openRuntime(root);
  const rootfs = join(root.dir, 'rootfs');
  await mkdir(rootfs);
  await makeBusyboxRootfs(rootfs);
  await opened.runtime.images.import(op, { kind: 'rootfs', path: rootfs, name: IMAGE });
  await opened.close();
  daemon = new DaemonProcess(root);
  await daemon.start();
  await endPod(await runPod(pod(root, 'first', { network: NamespaceMode.POD })));
  leaks = await LeakCheck.begin(root.leakRoots());
});

after(async () => {
  if (skip !== false) return;
  await daemon[Symbol.asyncDispose]();
  await root[Symbol.asyncDispose]();
});

async function runPod(config: PodSandboxConfig): Promise<string> {
  return (await daemon.cri.runtime.runPodSandbox(op, { config, runtimeHandler: '' })).podSandboxId;
}

async function endPod(podSandboxId: string): Promise<void> {
  await daemon.cri.runtime.stopPodSandbox(op, { podSandboxId });
  await daemon.cri.runtime.removePodSandbox(op, { podSandboxId });
}

async function create(podSandboxId: string, sandboxConfig: PodSandboxConfig, config: ContainerConfig): Promise<string> {
  return (await daemon.cri.runtime.createContainer(op, { podSandboxId, config, sandboxConfig })).containerId;
}

async function run(podSandboxId: string, sandboxConfig: PodSandboxConfig, config: ContainerConfig): Promise<string> {
  const containerId = await create(podSandboxId, sandboxConfig, config);
  await daemon.cri.runtime.startContainer(op, { containerId });
  return containerId;
}

async function look(containerId: string): Promise<ContainerStatus & { pid: number }> {
  const { status, info } = await daemon.cri.runtime.containerStatus(op, { containerId, verbose: true });
  const { pid } = JSON.parse(info['info'] ?? '{}') as { pid: number };
  assert.ok(status);
  return { ...status, pid };
}

const ended = (containerId: string): Promise<ContainerStatus> =>
  eventually(
    () => look(containerId),
    ({ state }) => state === ContainerState.CONTAINER_EXITED,
    'the exit',
  );

test('kill -9 of the daemon: the same processes serve on, and can be used and ended as before', { skip }, async () => {
  const config = pod(root, 'serve', { network: NamespaceMode.POD, pid: NamespaceMode.POD });
  const sandboxId = await runPod(config);
  const script =
    'echo up > /www/index.html; httpd -p 8080 -h /www; trap "exit 9" TERM; touch /www/ready; while :; do sleep 0.05; done';
  const id = await run(sandboxId, config, container('web', ['sh', '-c', script]));
  const before = await look(id);
  const { status } = await daemon.cri.runtime.podSandboxStatus(op, { podSandboxId: sandboxId, verbose: false });
  const url = `http://${status?.network?.ip ?? ''}:8080/`;
  const answer = async (): Promise<string> => await (await fetch(url, { signal: AbortSignal.timeout(60_000) })).text();
  await eventually(
    async () =>
      (await fetch(`${url}ready`).catch(() => undefined))?.ok === true ? await answer().catch(() => '') : '',
    (text) => text === 'up\n',
    'the page',
  );
  for (let round = 0; round < 2; round++) {
    await daemon.restart(async () => {
      assert.equal(await answer(), 'up\n');
    });
    assert.equal(await answer(), 'up\n');
    const now = await look(id);
    assert.equal(now.state, ContainerState.CONTAINER_RUNNING);
    assert.equal(now.pid, before.pid);
    assert.equal(now.startedAt, before.startedAt);
    const sandbox = await daemon.cri.runtime.podSandboxStatus(op, { podSandboxId: sandboxId, verbose: false });
    assert.equal(sandbox.status?.state, PodSandboxState.SANDBOX_READY);
  }
  const request = { containerId: id, cmd: ['echo', 'here'], timeout: 60n };
  assert.equal((await daemon.cri.runtime.execSync(op, request)).stdout.toString('utf8'), 'here\n');
  await daemon.cri.runtime.stopContainer(op, { containerId: id, timeout: 60n });
  assert.equal((await look(id)).exitCode, 9);
  await endPod(sandboxId);
  await leaks.assertNone();
});

/** Waits for the copy on the disk, which comes last. */
async function keptExit(id: string): Promise<string> {
  const file = join(root.data, 'exits', id);
  await eventually(
    () => readFile(file, 'utf8').catch(() => ''),
    (text) => text !== '',
    'the exit file',
  );
  return file;
}

test('exits that happen while no daemon runs keep their codes, signals and times', { skip }, async () => {
  const config = pod(root, 'meanwhile');
  const sandboxId = await runPod(config);
  const waiting = (code: string): string[] => ['sh', '-c', `while ! test -e /tmp/go; do sleep 0.05; done; ${code}`];
  const zero = await run(sandboxId, config, container('zero', waiting('exit 0')));
  const seven = await run(sandboxId, config, container('seven', waiting('exit 7')));
  const killed = await run(sandboxId, config, container('killed', ['sleep', '600']));
  const stays = await run(sandboxId, config, container('stays', ['sleep', '600']));
  const pids = { killed: (await look(killed)).pid, stays: (await look(stays)).pid };
  const rootOf = async (id: string): Promise<string> => `/proc/${String((await look(id)).pid)}/root/tmp/go`;
  const go = [await rootOf(zero), await rootOf(seven)];
  let afterWallMs = 0;
  await daemon.restart(async () => {
    for (const path of go) await writeFile(path, '');
    process.kill(pids.killed, 'SIGKILL');
    for (const id of [zero, seven, killed]) await keptExit(id);
    // As after a reboot: what is in memory is gone, and the copies on the disk are what there is.
    for (const id of [seven, killed]) await unlink(join(root.state, 'exits', id));
    afterWallMs = Date.now();
  });
  const statuses = await Promise.all([zero, seven, killed].map(ended));
  assert.deepEqual(
    statuses.map(({ exitCode }) => exitCode),
    [0, 7, 137],
  );
  for (const { startedAt, finishedAt } of statuses) {
    assert.ok(finishedAt >= startedAt);
    assert.ok(Number(finishedAt / 1_000_000n) <= afterWallMs, 'its time is that of its end, not of our look');
  }
  const alive = await look(stays);
  assert.equal(alive.state, ContainerState.CONTAINER_RUNNING);
  assert.equal(alive.pid, pids.stays);
  await endPod(sandboxId);
  await leaks.assertNone();
});

test('an exit that left no trace is unknown: no code is made up', { skip }, async () => {
  const config = pod(root, 'traceless');
  const sandboxId = await runPod(config);
  const id = await run(sandboxId, config, container('main', ['sleep', '600']));
  const { pid } = await look(id);
  await daemon.restart(async () => {
    process.kill(pid, 'SIGKILL');
    for (const file of [await keptExit(id), join(root.state, 'exits', id)]) await unlink(file);
  });
  const status = await ended(id);
  assert.equal(status.exitCode, 255);
  assert.equal(status.reason, 'Unknown');
  await endPod(sandboxId);
  await leaks.assertNone();
});

test('a stop goes on where it was, with the deadline it had', { skip }, async () => {
  const config = pod(root, 'stopping');
  const sandboxId = await runPod(config);
  const script = 'trap "echo asked >> /tmp/asked" TERM; touch /tmp/ready; while :; do sleep 0.05; done';
  const id = await run(sandboxId, config, container('main', ['sh', '-c', script]));
  const { pid } = await look(id);
  const asked = (): Promise<string> => readFile(`/proc/${String(pid)}/root/tmp/asked`, 'utf8').catch(() => '');
  const ready = { containerId: id, cmd: ['stat', '/tmp/ready'], timeout: 60n };
  await eventually(
    () => daemon.cri.runtime.execSync(op, ready),
    ({ exitCode }) => exitCode === 0,
    'the trap',
  );
  const stop = daemon.cri.runtime.stopContainer(op, { containerId: id, timeout: 3n }).catch(() => undefined);
  await eventually(asked, (text) => text === 'asked\n', 'the stop signal');
  await daemon.restart();
  await stop;
  const status = await ended(id);
  assert.equal(status.exitCode, 137);
  await endPod(sandboxId);
  await leaks.assertNone();
});

test('with the volatile ledger lost, a pod serves on and still leaves nothing at its end', { skip }, async () => {
  const config = pod(root, 'forgotten', { network: NamespaceMode.POD, pid: NamespaceMode.POD });
  const sandboxId = await runPod(config);
  const id = await run(sandboxId, config, container('main', ['sleep', '600']));
  const { pid } = await look(id);
  await daemon.restart(async () => {
    await writeFile(join(root.state, 'volatile.db'), 'this is no database');
    for (const rest of ['-wal', '-shm']) await unlink(join(root.state, `volatile.db${rest}`)).catch(() => undefined);
  });
  assert.equal((await look(id)).pid, pid);
  await endPod(sandboxId);
  for (const name of await readdir(root.state)) {
    if (name.includes('.damaged-')) await unlink(join(root.state, name));
  }
  await leaks.assertNone();
});

test(
  'killed in the middle of making things: nothing is left of them, and their names are free at once',
  { skip },
  async () => {
    const config = pod(root, 'half', { network: NamespaceMode.POD });
    const other = pod(root, 'other');
    const otherId = await runPod(other);
    for (const delayMs of [0, 5, 15, 30, 60, 120]) {
      const half = runPod(config).catch(() => undefined);
      const created = create(otherId, other, container(`c-${String(delayMs)}`, ['sleep', '600']))
        .then((containerId) => daemon.cri.runtime.startContainer(op, { containerId }))
        .catch(() => undefined);
      await new Promise((next) => setTimeout(next, delayMs));
      await daemon.restart();
      await Promise.all([half, created]);
      const again = await runPod(config);
      await endPod(again);
    }
    await endPod(otherId);
    const { items } = await daemon.cri.runtime.listPodSandbox(op, { filter: undefined });
    for (const { id } of items) await endPod(id);
    await leaks.assertNone();
  },
);

test('an end that was cut short is finished by the next daemon', { skip }, async () => {
  for (const delayMs of [0, 5, 20, 60, 120, 200]) {
    const config = pod(root, `end-${String(delayMs)}`, { network: NamespaceMode.POD });
    const sandboxId = await runPod(config);
    await run(sandboxId, config, container('main', ['sleep', '600']));
    const removal = daemon.cri.runtime.removePodSandbox(op, { podSandboxId: sandboxId }).catch(() => undefined);
    await new Promise((next) => setTimeout(next, delayMs));
    await daemon.restart();
    await removal;
    const { items } = await daemon.cri.runtime.listPodSandbox(op, { filter: undefined });
    // Killed before it was noted: then it was never asked for.
    for (const { id } of items) await endPod(id);
  }
  await leaks.assertNone();
});
