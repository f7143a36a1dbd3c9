import assert from 'node:assert/strict';
import { chmod, mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { ContainerState } from '../../../src/cri/gen/api.ts';
import type { StatusResponse } from '../../../src/cri/gen/api.ts';
import { messageOf } from '../../../src/lib/errors.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { TempRoot } from '../../support/temp-root.ts';
import { realOciRuntime } from '../../support/wrapped-oci-runtime.ts';
import { eventually } from './daemon-process.ts';
import { container, op, openRuntime, openWithImage, pod, type Opened, type OpenOptions } from './runtime-fixture.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
let root: TempRoot;
let leaks: LeakCheck;
let dir: string;
let opened: Opened;

before(async () => {
  if (skip !== false) return;
  root = await TempRoot.make();
  dir = join(root.dir, 'programs');
  await mkdir(dir);
  const real = await realOciRuntime();
  for (const name of ['plain', 'special']) {
    const path = join(dir, name);
    // Says with what it was called, and hands on.
    await writeFile(path, `#!/bin/sh\necho "$*" >> ${path}.calls\nexec ${real} "$@"\n`);
    await chmod(path, 0o755);
  }
  opened = await openWithImage(root, options());
  leaks = await LeakCheck.begin(root.leakRoots());
});

after(async () => {
  if (skip !== false) return;
  await opened.close();
  await root[Symbol.asyncDispose]();
});

function options(more: OpenOptions = {}): OpenOptions {
  const runtimes = [`special=${dir}/special`, 'broken=/bin/false'];
  return { ociRuntime: join(dir, 'plain'), runtimes, ...more };
}

async function callsOf(name: string): Promise<string[]> {
  return (await readFile(join(dir, `${name}.calls`), 'utf8')).trimEnd().split('\n');
}

async function run(name: string, runtimeHandler: string): Promise<{ sandboxId: string; id: string }> {
  const { runtime } = opened.runtime;
  const config = pod(root, name);
  const { podSandboxId: sandboxId } = await runtime.runPodSandbox(op, { config, runtimeHandler });
  return { sandboxId, id: await start(sandboxId, name, 'main') };
}

async function start(podSandboxId: string, podName: string, name: string): Promise<string> {
  const { runtime } = opened.runtime;
  const config = container(name, ['sleep', '1000']);
  const sandboxConfig = pod(root, podName);
  const { containerId } = await runtime.createContainer(op, { podSandboxId, config, sandboxConfig });
  await runtime.startContainer(op, { containerId });
  return containerId;
}

async function endPod(podSandboxId: string): Promise<void> {
  await opened.runtime.runtime.stopPodSandbox(op, { podSandboxId });
  await opened.runtime.runtime.removePodSandbox(op, { podSandboxId });
}

const status = (verbose = false): Promise<StatusResponse> => opened.runtime.runtime.status(op, { verbose });
const condition = ({ status: shown }: StatusResponse, type: string) =>
  shown?.conditions.find((one) => one.type === type);

test('a pod is made with its handler, and stays with it over a restart without that', { skip }, async () => {
  const { sandboxId, id } = await run('special', 'special');
  const made = (await callsOf('special')).filter((call) => call.includes('create') && call.includes(id));
  assert.equal(made.length, 1);
  assert.ok(!(await callsOf('plain')).some((call) => call.includes(id)));
  const { runtime } = opened.runtime;
  const sandbox = await runtime.podSandboxStatus(op, { podSandboxId: sandboxId, verbose: false });
  assert.equal(sandbox.status?.runtimeHandler, 'special');

  await opened.close();
  opened = await openRuntime(root, options({ runtimes: [] }));
  await opened.runtime.recovered;
  await assert.rejects(run('again', 'special'), { kind: 'InvalidArgument' });
  const second = await start(sandboxId, 'special', 'second');
  assert.ok((await callsOf('special')).some((call) => call.includes('create') && call.includes(second)));
  await endPod(sandboxId);
  assert.ok((await callsOf('special')).some((call) => call.includes('delete') && call.includes(second)));
  await opened.close();
  opened = await openRuntime(root, options());
  await opened.runtime.recovered;
  await leaks.assertNone();
});

test('Status has the handlers that work, each with what it can; the others say why', { skip }, async () => {
  const answer = await status(true);
  assert.equal(condition(answer, 'RuntimeReady')?.status, true);
  assert.deepEqual(
    answer.runtimeHandlers.map(({ name }) => name),
    ['', 'plain', 'special'],
  );
  assert.equal(answer.features?.supplementalGroupsPolicy, true);
  const info = Object.fromEntries(Object.entries(answer.info).map(([key, text]) => [key, JSON.parse(text) as unknown]));
  assert.deepEqual(Object.keys(info).sort(), ['config', 'handlers', 'notices', 'versions']);
  const { refused } = info['handlers'] as { refused: { name: string; reason: string }[] };
  assert.deepEqual(
    refused.map(({ name }) => name),
    ['broken'],
  );
  await assert.rejects(run('broken', 'broken'), (error) =>
    /"broken" does not work here: \/bin\/false/.test(messageOf(error)),
  );
  await assert.rejects(run('unknown', 'unknown'), { kind: 'InvalidArgument' });
  await leaks.assertNone();
});

test(
  'no OCI runtime works: what runs is seen, stopped and removed, new pods are refused, and it heals by itself',
  { skip },
  async () => {
    const first = await run('first', 'special');
    await opened.close();
    const plain = join(dir, 'plain');
    await rename(plain, `${plain}.away`);
    opened = await openRuntime(root, options());
    await opened.runtime.recovered;
    const { runtime } = opened.runtime;

    const down = condition(await status(), 'RuntimeReady');
    assert.equal(down?.status, false);
    assert.equal(down.reason, 'OciRuntimeNotReady');
    assert.match(down.message, /no usable OCI runtime: .*plain: .*no such program/);
    await assert.rejects(run('second', ''), (error) => /no usable OCI runtime/.test(messageOf(error)));
    const seen = await runtime.containerStatus(op, { containerId: first.id, verbose: false });
    assert.equal(seen.status?.state, ContainerState.CONTAINER_RUNNING);
    await endPod(first.sandboxId);
    await leaks.assertNone();

    await rename(`${plain}.away`, plain);
    await eventually(status, (answer) => condition(answer, 'RuntimeReady')?.status === true, 'the OCI runtime');
    const second = await run('second', '');
    await endPod(second.sandboxId);
    await leaks.assertNone();
  },
);

test('a Gantry that has never run anything fails in words', { skip }, async () => {
  await using fresh = await TempRoot.make();
  await assert.rejects(
    openRuntime(fresh, { ociRuntime: '/no/such/runtime' }),
    /no usable OCI runtime: \/no\/such\/runtime/,
  );
});
