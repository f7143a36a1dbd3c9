import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { ContainerState, type PodSandboxConfig } from '../../../src/cri/gen/api.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import { Cgroups, detectCgroups } from '../../../src/linux/cgroups.ts';
import { readCmdline } from '../../../src/linux/procfs.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { container, op, pod, RuntimeFixture } from './runtime-fixture.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const LOOP = 'touch /tmp/ready; while :; do sleep 0.05; done';

let f: RuntimeFixture;
let leaks: LeakCheck;
let cgroups: Cgroups;
let config: PodSandboxConfig;
let sandboxId: string;

before(async () => {
  if (skip !== false) return;
  f = await RuntimeFixture.make();
  leaks = await LeakCheck.begin(f.root.leakRoots());
  cgroups = new Cgroups({ clock: systemClock, host: await detectCgroups() });
  config = pod(f.root, 'paused');
  sandboxId = await f.runSandbox(config);
});

after(async () => {
  if (skip !== false) return;
  try {
    await f.endPod(sandboxId);
    await leaks.assertNone();
  } finally {
    await f[Symbol.asyncDispose]();
  }
});

const cgroupOf = (id: string): string => `${f.root.cgroupParent}/pod${sandboxId}/${id}`;

/** Runs a script and returns when its traps are set. */
async function runReady(name: string, script: string): Promise<string> {
  const id = await f.runContainer(sandboxId, config, container(name, ['sh', '-c', script]));
  while ((await f.exec(id, 'stat', '/tmp/ready')).exitCode !== 0);
  return id;
}

async function pidOf(containerId: string): Promise<number> {
  const { info } = await f.cri.containerStatus(op, { containerId, verbose: true });
  return (JSON.parse(info['info'] ?? '{}') as { pid: number }).pid;
}

/** A group as a container makes it for itself. In the v2 tree controllers for it would leave its parent no place for processes. */
async function makeInner(path: string): Promise<void> {
  const { mode, unified } = await detectCgroups();
  if (mode === 'v2') await mkdir(join(unified?.mountPoint ?? '', path));
  else await cgroups.create(path);
}

test('a paused container is asked, thawed, and ends by its own handler', { skip }, async () => {
  const id = await runReady('handler', `trap "exit 12" TERM; ${LOOP}`);
  await cgroups.freeze(cgroupOf(id));
  await f.stop(id, 600);
  assert.equal((await f.status(id)).exitCode, 12);
});

test('what is frozen in a group of its own below is thawed as well', { skip }, async () => {
  const child = `trap "exit 3" TERM; ${LOOP}`;
  const id = await runReady(
    'nested',
    `sh -c '${child}' inner & trap "kill -TERM $!; wait $!; exit 1\\$?" TERM; while :; do sleep 0.05; done`,
  );
  const inner = `${cgroupOf(id)}/inner`;
  const pids = await cgroups.procs(cgroupOf(id));
  const lines = await Promise.all(pids.map(async (pid) => ({ pid, argv: await readCmdline(pid) })));
  const pid = lines.find(({ argv }) => argv?.at(-1) === 'inner')?.pid;
  assert.ok(pid, JSON.stringify(lines));
  await makeInner(inner);
  await cgroups.moveProcess(inner, pid);
  await cgroups.freeze(inner);
  await f.stop(id, 600);
  assert.equal((await f.status(id)).exitCode, 13);
});

test('paused over a restart: RUNNING in the same process, which goes on when it is thawed', { skip }, async () => {
  const id = await runReady('restart', `trap "exit 14" TERM; ${LOOP}`);
  const before = { pid: await pidOf(id), startedAt: (await f.status(id)).startedAt };
  await cgroups.freeze(cgroupOf(id));
  await f.restart();
  await f.runtime.recovered;
  assert.equal((await f.status(id)).state, ContainerState.CONTAINER_RUNNING);
  assert.deepEqual({ pid: await pidOf(id), startedAt: (await f.status(id)).startedAt }, before);
  assert.equal(await cgroups.isFrozen(cgroupOf(id)), true);
  await cgroups.thaw(cgroupOf(id));
  assert.equal((await f.exec(id, 'echo', 'here')).stdout, 'here\n');
  await f.stop(id, 600);
  assert.equal((await f.status(id)).exitCode, 14);
});
