import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { connectCri } from '../../../src/cri/client.ts';
import { ContainerState, type ContainerStatus, type PodSandboxConfig } from '../../../src/cri/gen/api.ts';
import { inspectorOf } from '../../../src/cri/inspector/inspector-service.ts';
import { isKind, messageOf } from '../../../src/lib/errors.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { TempRoot } from '../../support/temp-root.ts';
import { WrappedOciRuntime } from '../../support/wrapped-oci-runtime.ts';
import { DaemonProcess, eventually } from '../runtime/daemon-process.ts';
import { container, op, openWithImage, pod } from '../runtime/runtime-fixture.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
let root: TempRoot;
let oci: WrappedOciRuntime;
let daemon: DaemonProcess;
let leaks: LeakCheck;
let sandboxId: string;
const config = (): PodSandboxConfig => pod(root, 'hung');

before(async () => {
  if (skip !== false) return;
  root = await TempRoot.make();
  oci = await WrappedOciRuntime.make(join(root.dir, 'oci'));
  const options = { ociRuntime: oci.path };
  await (await openWithImage(root, options)).close();
  daemon = new DaemonProcess(root, options);
  await daemon.start();
  leaks = await LeakCheck.begin(root.leakRoots());
  sandboxId = (await daemon.cri.runtime.runPodSandbox(op, { config: config(), runtimeHandler: '' })).podSandboxId;
});

after(async () => {
  if (skip !== false) return;
  try {
    await daemon.cri.runtime.stopPodSandbox(op, { podSandboxId: sandboxId });
    await daemon.cri.runtime.removePodSandbox(op, { podSandboxId: sandboxId });
    await leaks.assertNone();
  } finally {
    await daemon[Symbol.asyncDispose]();
    await root[Symbol.asyncDispose]();
  }
});

type Look = ContainerStatus & { readonly pid: number };

async function look(containerId: string, { runtime } = daemon.cri): Promise<Look> {
  const { status, info } = await runtime.containerStatus(op, { containerId, verbose: true });
  assert.ok(status);
  return { ...status, pid: (JSON.parse(info['info'] ?? '{}') as { pid: number }).pid };
}

async function create(name: string): Promise<string> {
  const command = container(name, ['sh', '-c', 'echo "up as $$"; exec sleep 600']);
  const request = { podSandboxId: sandboxId, config: command, sandboxConfig: config() };
  return (await daemon.cri.runtime.createContainer(op, request)).containerId;
}

const logOf = (name: string): Promise<string> =>
  readFile(join(root.logRoot, 'hung', name, '0.log'), 'utf8').catch(() => '');

/** The daemon dies while it waits for the OCI runtime's start, which is carried out all the same; then `state` hangs for them. */
async function cutOffStarts(ids: ReadonlyMap<string, string>): Promise<void> {
  const starts = [...ids.values()].map(async (containerId) => {
    await oci.hang('start', containerId);
    await daemon.cri.runtime.startContainer(op, { containerId });
  });
  for (const start of starts) start.catch(() => undefined);
  await eventually(
    () => inspectorOf(daemon.cri).explain(op, { subject: { podName: 'hung' } }),
    ({ pending }) => pending.filter(({ message }) => /waiting for \S+ start\b/.test(message)).length >= ids.size,
    'starts that hang',
  );
  await daemon.kill();
  for (const id of ids.values()) {
    await oci.hang('state', id);
    await oci.work('start', id);
  }
  for (const name of ids.keys()) {
    await eventually(
      () => logOf(name),
      (text) => text.includes('up as'),
      `${name}, which runs while no daemon does`,
    );
  }
}

test(
  "the OCI runtime's `state` hangs for containers whose start was cut off: others are recovered meanwhile, nothing is killed, and it heals",
  { skip },
  async () => {
    const fine = await create('fine');
    await daemon.cri.runtime.startContainer(op, { containerId: fine });
    const { pid: finePid } = await look(fine);
    const cut = new Map<string, string>();
    for (const name of ['heals', 'stopped', 'removed']) cut.set(name, await create(name));
    const id = (name: string): string => cut.get(name) ?? '';
    // What runs is found by the process table alone.
    await oci.hang('state', fine);
    await cutOffStarts(cut);

    const starting = daemon.start();
    const early = connectCri(root.criSocket);
    const running = await eventually(
      () => look(fine, early).catch(() => undefined),
      (found) => found?.state === ContainerState.CONTAINER_RUNNING,
      'the other one',
    );
    assert.equal(running?.pid, finePid);
    // Nobody knows yet whether its command has run: it stays what it was known to be.
    for (const containerId of cut.values()) {
      assert.equal((await look(containerId, early)).state, ContainerState.CONTAINER_CREATED);
    }
    early.close();
    await starting;
    for (const [name, containerId] of cut) {
      const pending = await eventually(
        () => inspectorOf(daemon.cri).pendingWork(op, { containerId }),
        (items) => items.some(({ attempts }) => attempts >= 2),
        `a second look at ${name}`,
      );
      assert.ok(
        pending.some(({ kind }) => kind === 'recovery of the container'),
        JSON.stringify(pending),
      );
      assert.equal((await look(containerId)).state, ContainerState.CONTAINER_CREATED);
    }

    const again = daemon.cri.runtime.startContainer(op, { containerId: id('heals') });
    await assert.rejects(again, (error) => isKind(error, 'Unavailable') && /not known yet/.test(messageOf(error)));

    await daemon.cri.runtime.stopContainer(op, { containerId: id('stopped'), timeout: 0n });
    const stopped = await look(id('stopped'));
    assert.equal(stopped.state, ContainerState.CONTAINER_EXITED);
    assert.equal(stopped.exitCode, 137);
    await daemon.cri.runtime.removeContainer(op, { containerId: id('removed') });

    await oci.work('state', id('heals'));
    const healed = await eventually(
      () => look(id('heals')),
      ({ state }) => state === ContainerState.CONTAINER_RUNNING,
      'the answer',
    );
    assert.ok(healed.pid > 0);
    assert.equal((await logOf('heals')).match(/up as/g)?.length, 1, 'started once, never killed');
    const request = { containerId: id('heals'), cmd: ['echo', 'served'], timeout: 60n };
    assert.equal((await daemon.cri.runtime.execSync(op, request)).stdout.toString('utf8'), 'served\n');
    assert.equal((await look(fine)).pid, finePid);
  },
);
