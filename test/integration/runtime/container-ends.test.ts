import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { ContainerState, Signal } from '../../../src/cri/gen/api.ts';
import { isKind } from '../../../src/lib/errors.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { container, IMAGE, op, pod, RuntimeFixture } from './runtime-fixture.ts';

const root = process.getuid?.() !== 0 && 'needs root';
let f: RuntimeFixture;
let leaks: LeakCheck;
let sandboxId: string;
const config = (): ReturnType<typeof pod> => pod(f.root, 'ends');

before(async () => {
  if (root !== false) return;
  f = await RuntimeFixture.make();
  leaks = await LeakCheck.begin(f.root.leakRoots());
  sandboxId = await f.runSandbox(config());
});

after(async () => {
  if (root !== false) return;
  try {
    await f.endPod(sandboxId);
    await leaks.assertNone();
  } finally {
    await f[Symbol.asyncDispose]();
  }
});

const run = (name: string, script: string, more: object = {}): Promise<string> =>
  f.runContainer(sandboxId, config(), container(name, ['sh', '-c', script], more));
const LOOP = 'touch /tmp/ready; while :; do sleep 0.05; done';
/** Runs a script that says by a file when its traps are set: a signal that comes before is none of the test's. */
async function runReady(name: string, traps: string, more: object = {}): Promise<string> {
  const id = await run(name, `${traps}; ${LOOP}`, more);
  while ((await f.exec(id, 'stat', '/tmp/ready')).exitCode !== 0);
  return id;
}
const exited = (status: { state: ContainerState }): boolean => status.state === ContainerState.CONTAINER_EXITED;

test('each exit code is the true one', { skip: root }, async () => {
  await Promise.all(
    [0, 1, 42, 137, 255].map(async (code) => {
      const status = await f.waitFor(await run(`code-${String(code)}`, `exit ${String(code)}`), exited);
      assert.equal(status.exitCode, code);
      assert.equal(status.reason, code === 0 ? 'Completed' : 'Error');
    }),
  );
});

test(
  'a command that is not there is a StartError of 128, in the words of the OCI runtime',
  { skip: root },
  async () => {
    const id = await f.createContainer(sandboxId, config(), container('missing', ['/no/such/command']));
    await assert.rejects(f.cri.startContainer(op, { containerId: id }), (error) => {
      assert.ok(!isKind(error, 'NotFound'), 'NotFound would mean the container');
      return /no such file|not found/i.test(String(error));
    });
    const status = await f.status(id);
    assert.equal(status.state, ContainerState.CONTAINER_EXITED);
    assert.equal(status.exitCode, 128);
    assert.equal(status.reason, 'StartError');
    assert.match(status.message, /no such file|not found/i);
    assert.equal(status.startedAt, 0n);
    await assert.rejects(f.cri.startContainer(op, { containerId: id }), (error) => isKind(error, 'FailedPrecondition'));
    await f.cri.removeContainer(op, { containerId: id });
  },
);

test('a container that ignores its stop signal is killed when its grace is over', { skip: root }, async () => {
  const id = await runReady('deaf', 'trap "" TERM');
  const began = performance.now();
  await f.stop(id, 1);
  // The kernel's boot time is read in steps of 10 ms.
  assert.ok(performance.now() - began >= 980);
  const status = await f.status(id);
  assert.equal(status.exitCode, 137);
  assert.equal(status.reason, 'Error');
});

test('a shorter stop wins over a longer one that runs, whose caller is served, too', { skip: root }, async () => {
  const id = await runReady('patient', 'trap "" TERM');
  const long = f.stop(id, 600);
  assert.equal((await f.exec(id, 'echo', 'still here')).stdout, 'still here\n');
  await f.stop(id, 0);
  await long;
  assert.equal((await f.status(id)).exitCode, 137);
});

test('the stop signal is the one that was asked for', { skip: root }, async () => {
  const id = await runReady('usr1', 'trap "exit 11" USR1', { stopSignal: Signal.SIGUSR1 });
  assert.equal((await f.status(id)).stopSignal, Signal.SIGUSR1);
  await f.stop(id, 30);
  assert.equal((await f.status(id)).exitCode, 11);
});

test('a stop goes on when its caller leaves', { skip: root }, async () => {
  const id = await runReady('left', 'trap "" TERM');
  const caller = new AbortController();
  const call = f.cri.stopContainer({ ...op, signal: caller.signal }, { containerId: id, timeout: 1n });
  caller.abort(new Error('gone'));
  await assert.rejects(call);
  assert.equal((await f.waitFor(id, exited)).exitCode, 137);
});

test('a container over its memory limit is OOMKilled, one that we kill is not', { skip: root }, async () => {
  const resources = { memoryLimitInBytes: BigInt(16 << 20), memorySwapLimitInBytes: BigInt(16 << 20) };
  const id = await run('oom', 'exec tail /dev/zero', { linux: { resources } });
  const status = await f.waitFor(id, exited);
  assert.equal(status.exitCode, 137);
  assert.equal(status.reason, 'OOMKilled');
});

test('what an init leaves behind in its cgroup dies with it', { skip: root }, async () => {
  const id = await run('forks', '(trap "" TERM HUP; while :; do sleep 0.1; done) & echo started; exit 5');
  assert.equal((await f.waitFor(id, exited)).exitCode, 5);
});

test('stopping or removing what is not there is a success, asking for it is NotFound', { skip: root }, async () => {
  const nobody = 'f'.repeat(64);
  await f.stop(nobody, 0);
  await f.cri.removeContainer(op, { containerId: nobody });
  await f.cri.stopPodSandbox(op, { podSandboxId: nobody });
  await f.cri.removePodSandbox(op, { podSandboxId: nobody });
  const missing = (error: unknown): boolean => isKind(error, 'NotFound');
  await assert.rejects(f.status(nobody), missing);
  await assert.rejects(f.exec(nobody, 'true'), missing);
  await assert.rejects(f.cri.startContainer(op, { containerId: nobody }), missing);
  await assert.rejects(f.createContainer(nobody, config(), container('x', ['true'])), missing);
  await assert.rejects(
    f.createContainer(sandboxId, config(), container('x', ['true'], { image: { image: 'localhost/none:1' } })),
    missing,
  );
});

test('a running container is removed by force; a name is free again afterwards', { skip: root }, async () => {
  const first = await run('again', 'sleep 600');
  await assert.rejects(run('again', 'sleep 600'), (error) => isKind(error, 'AlreadyExists'));
  await f.cri.removeContainer(op, { containerId: first });
  const second = await run('again', 'sleep 600');
  const { containers } = await f.cri.listContainers(op, {
    filter: {
      id: '',
      state: { state: ContainerState.CONTAINER_RUNNING },
      podSandboxId: sandboxId,
      labelSelector: { container: 'again' },
    },
  });
  assert.deepEqual(
    containers.map(({ id, image }) => [id, image?.image]),
    [[second, IMAGE]],
  );
});

test('many short containers side by side: each has its own code', { skip: root }, async () => {
  const codes = Array.from({ length: 16 }, (_, index) => index);
  await Promise.all(
    codes.map(async (code) => {
      const id = await run(`short-${String(code)}`, `exit ${String(code)}`);
      assert.equal((await f.waitFor(id, exited)).exitCode, code);
      await f.cri.removeContainer(op, { containerId: id });
    }),
  );
});
