import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { ContainerState, PodSandboxState } from '../../../src/cri/gen/api.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { container, IMAGE, op, pod, RuntimeFixture } from './runtime-fixture.ts';

const root = process.getuid?.() !== 0 && 'needs root';
let f: RuntimeFixture;
let leaks: LeakCheck;

before(async () => {
  if (root !== false) return;
  f = await RuntimeFixture.make();
  leaks = await LeakCheck.begin(f.root.leakRoots());
});

after(async () => {
  if (root !== false) return;
  await f[Symbol.asyncDispose]();
});

test('a pod runs, is seen, ends and leaves nothing', { skip: root }, async () => {
  const config = pod(f.root, 'life');
  const sandboxId = await f.runSandbox(config);
  const sandbox = await f.cri.podSandboxStatus(op, { podSandboxId: sandboxId.slice(0, 13), verbose: true });
  assert.equal(sandbox.status?.state, PodSandboxState.SANDBOX_READY);
  assert.deepEqual(sandbox.status.annotations, config.annotations);

  const script = 'trap "echo bye; exit 7" TERM; echo hello; touch /tmp/ready; while :; do sleep 0.05; done';
  const id = await f.runContainer(sandboxId, config, container('main', ['sh', '-c', script]));
  while ((await f.exec(id, 'stat', '/tmp/ready')).exitCode !== 0);
  const running = await f.status(id);
  assert.equal(running.state, ContainerState.CONTAINER_RUNNING);
  assert.equal(running.image?.image, IMAGE);
  assert.ok(running.startedAt >= running.createdAt);
  assert.deepEqual(await f.exec(id, 'sh', '-c', 'echo out; echo err >&2; exit 3'), {
    exitCode: 3,
    stdout: 'out\n',
    stderr: 'err\n',
  });
  assert.match((await f.exec(id, 'cat', '/etc/resolv.conf')).stdout, /nameserver 192\.0\.2\.53/);

  await f.stop(id, 30);
  const exited = await f.status(id);
  assert.equal(exited.state, ContainerState.CONTAINER_EXITED);
  assert.equal(exited.exitCode, 7);
  assert.equal(exited.reason, 'Error');
  assert.ok(exited.finishedAt >= exited.startedAt);
  const text = await readFile(join(f.root.logRoot, 'life', 'main/0.log'), 'utf8');
  assert.match(text, /stdout F hello\n.*stdout F bye\n/s);

  await f.cri.removeContainer(op, { containerId: id });
  await f.cri.removeContainer(op, { containerId: id });
  await f.endPod(sandboxId);
  await f.endPod(sandboxId);
  assert.deepEqual((await f.cri.listPodSandbox(op, { filter: undefined })).items, []);
  await leaks.assertNone();
});
