import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:fs';
import { chmod, open, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../../src/lib/clock.ts';
import { canceled, isKind } from '../../../src/lib/errors.ts';
import { execFile } from '../../../src/linux/exec.ts';
import { silentLog } from '../../../src/lib/log.ts';
import { Waits } from '../../../src/lib/waits.ts';
import type { ResourcesInput } from '../../../src/runtime/oci/container-spec-input.ts';
import { exitFolder } from '../../../src/runtime/task/exit-folder.ts';
import type { ExitStatus } from '../../../src/runtime/task/exit-status.ts';
import { ExitWatcher } from '../../../src/runtime/task/exit-watcher.ts';
import type { ProcessTable } from '../../../src/runtime/task/process-table.ts';
import type { Task } from '../../../src/runtime/task/task.ts';
import { needsRoot, op, TaskFixture, until } from './task-fixture.ts';

const LAUNCH = new URL('../../../bin/launch', import.meta.url).pathname;

interface Elsewhere {
  readonly maker: ChildProcess;
  readonly task: Task;
}

/** The task of another process, which executes something in it if asked to. */
async function makeElsewhere(
  fixture: TaskFixture,
  argv: readonly string[],
  exec: readonly string[] = [],
  resources: ResourcesInput = {},
): Promise<Elsewhere> {
  const request = await fixture.request({
    argv,
    spec: { resources, mounts: [{ containerPath: '/data', hostPath: `${fixture.dir}/logs` }] },
  });
  const input = join(fixture.dir, 'request.json');
  await writeFile(input, JSON.stringify({ request, dir: fixture.dir }));
  const maker = spawn(LAUNCH, ['test/integration/task/make-and-wait.ts', input, ...exec], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = (await once(maker.stdout, 'data')) as [Buffer];
  const task = JSON.parse(line.toString('utf8')) as Task;
  fixture.tasks.push(task);
  return { maker, task };
}

async function endNow(maker: ChildProcess): Promise<void> {
  const ended = once(maker, 'exit');
  maker.kill('SIGKILL');
  await ended;
}

await test('monitor killed, then the process ends: told once, never with a made-up code', needsRoot, async () => {
  await using fixture = await TaskFixture.make();
  const task = await fixture.shell('while [ ! -e /data/go ]; do sleep 0.05; done; exit 5', {
    spec: { mounts: [{ containerPath: '/data', hostPath: `${fixture.dir}/logs` }] },
  });
  process.kill(task.conmonPid, 'SIGKILL');
  await until('the monitor to be gone', async () => (await fixture.isGone(task.conmonPid)) || undefined);
  await fixture.watcher.look();
  assert.equal(fixture.exits.size, 0);
  await assert.rejects(fixture.service.reopenLog(op, task), (error) => isKind(error, 'Unavailable'));
  await writeFile(`${fixture.dir}/logs/go`, '');
  const status = await fixture.exit(task.id);
  assert.equal(status.logMayBeIncomplete, true);
  // Where the kernel cannot tell any more, unknown is the answer.
  if (status.kind === 'exited') assert.equal(status.code, 5);
  else assert.match(status.reason, /its monitor is gone/);
  await fixture.service.delete(op, task);
  assert.equal(fixture.exits.get(task.id)?.length, 1);
});

await test(
  'monitor stopped: told from the process table after a while, then deleted all the same',
  needsRoot,
  async () => {
    await using fixture = await TaskFixture.make();
    const task = await fixture.shell('sleep 1000');
    process.kill(task.conmonPid, 'SIGSTOP');
    await fixture.service.signal(op, task, 9);
    const status = await fixture.exit(task.id);
    assert.deepEqual(
      [status.kind, status.kind === 'exited' && status.code, status.kind === 'exited' && status.signal],
      ['exited', 137, 9],
    );
    assert.equal(status.logMayBeIncomplete, true);
    await fixture.service.delete(op, task);
  },
);

await test('monitor stopped and woken: the exit is told, then corrected once', needsRoot, async () => {
  await using fixture = await TaskFixture.make();
  const task = await fixture.shell('sleep 1000');
  process.kill(task.conmonPid, 'SIGSTOP');
  await fixture.service.signal(op, task, 15);
  await fixture.service.signal(op, task, 9);
  assert.equal((await fixture.exit(task.id)).logMayBeIncomplete, true);
  process.kill(task.conmonPid, 'SIGCONT');
  const corrected = await until('the correction', () => fixture.corrections.get(task.id));
  assert.equal(corrected.kind === 'exited' && corrected.code, 137);
  assert.equal(corrected.logMayBeIncomplete, undefined);
  await fixture.watcher.look();
  assert.equal(fixture.exits.get(task.id)?.length, 1);
});

/** A process table that sees no dead and hears no words of theirs, as it is once conmon has reaped and the kernel is older than Linux 6.15. */
function forgetful(processes: ProcessTable): ProcessTable {
  return {
    view: async (pid) => {
      const view = await processes.view(pid);
      return view?.state === 'Z' ? undefined : view;
    },
    signal: (key, signal) => processes.signal(key, signal),
    watch: (key, onExit) =>
      processes.watch(key, () => {
        onExit(undefined);
      }),
  };
}

await test(
  'its log stalls and nobody but the monitor knows the code: unknown, then what the monitor says when it can',
  needsRoot,
  async () => {
    await using fixture = await TaskFixture.make();
    const logPath = `${fixture.dir}/logs/stalled`;
    await execFile(op, 'mkfifo', [logPath]);
    await using log = await open(logPath, constants.O_RDWR | constants.O_NONBLOCK);
    const block = Buffer.alloc(4096);
    const fill = async (): Promise<void> => {
      for (;;) await log.write(block);
    };
    await assert.rejects(fill(), { code: 'EAGAIN' });
    const told: ExitStatus[] = [];
    const corrected: ExitStatus[] = [];
    await using watcher = new ExitWatcher({
      clock: systemClock,
      log: silentLog,
      processes: forgetful(fixture.processes),
      exits: exitFolder(fixture.exitFolders),
      onExit: (_id, status) => told.push(status),
      onCorrection: (_id, status) => corrected.push(status),
    });
    await watcher.start();
    const task = await fixture.create({ argv: ['sh', '-c', 'echo last words; exit 6'], request: { logPath } });
    watcher.arm(task);
    await fixture.service.start(op, task);
    assert.equal((await until('an exit', () => told[0])).kind, 'unknown');
    const waits = new Waits(systemClock);
    const deleting = fixture.service.delete({ ...op, waits }, task, { force: true, exitUnknown: true });
    await until('the wait for its word', () => /to say how its container ended/.test(waits.words()) || undefined);
    assert.equal(corrected.length, 0);
    const drain = async (): Promise<void> => {
      for (;;) await log.read(block);
    };
    await assert.rejects(drain(), { code: 'EAGAIN' });
    const status = await until('the correction', () => corrected[0]);
    assert.equal(status.kind === 'exited' && status.code, 6);
    await deleting;
  },
);

await test('an exit that is past when it is armed is told', needsRoot, async () => {
  await using fixture = await TaskFixture.make();
  const task = await fixture.create({ argv: ['sh', '-c', 'exit 9'] });
  await fixture.service.start(op, task);
  await until('the exit file', () => fixture.service.readExit(task.id));
  fixture.arm(task);
  const status = await fixture.exit(task.id);
  assert.equal(status.kind === 'exited' && status.code, 9);
});

await test('out of memory: the init is told from a child', needsRoot, async () => {
  await using fixture = await TaskFixture.make();
  const spec = { resources: { memoryLimitBytes: 24 << 20, memorySwapLimitBytes: 24 << 20 } };
  const eat = 'tail -c 200000000 /dev/zero';
  const init = await fixture.run({ argv: eat.split(' '), spec });
  const ofInit = await fixture.exit(init.id);
  assert.equal(ofInit.kind === 'exited' && ofInit.oom, 'init');
  assert.equal(ofInit.kind === 'exited' && ofInit.code, 137);
  const child = await fixture.shell(`${eat}; exit 6`, { spec });
  const ofChild = await fixture.exit(child.id);
  assert.deepEqual([ofChild.kind === 'exited' && ofChild.code, ofChild.kind === 'exited' && ofChild.oom], [6, 'child']);
  const killed = await fixture.shell(`${eat}; touch /data/now; sleep 1000`, {
    spec: { ...spec, mounts: [{ containerPath: '/data', hostPath: `${fixture.dir}/logs` }] },
  });
  await until('the child to die', () => readFile(`${fixture.dir}/logs/now`).catch(() => undefined));
  fixture.killed.add(killed.id);
  await fixture.service.signal(op, killed, 9);
  const ofKilled = await fixture.exit(killed.id);
  assert.equal(ofKilled.kind === 'exited' && ofKilled.oom, 'child');
});

await test('a create that hangs is given up on request and leaves nothing', needsRoot, async () => {
  await using fixture = await TaskFixture.make();
  const wrapper = join(fixture.dir, 'hanging-runtime');
  const { path, root, name } = fixture.runtime.location;
  await writeFile(
    wrapper,
    `#!/bin/sh\ncase "$*" in *" create "*) exec /bin/sh -c 'sleep 1000 & touch ${fixture.dir}/hangs; wait' hang "$@";; esac\nexec ${path} "$@"\n`,
  );
  await chmod(wrapper, 0o755);
  const leaving = new AbortController();
  const request = await fixture.request({ argv: ['true'], request: { runtime: { name, path: wrapper, root } } });
  const creating = fixture.service.create({ ...op, signal: leaving.signal }, request);
  creating.catch(() => undefined);
  await until('it to hang', () => readFile(`${fixture.dir}/hangs`).catch(() => undefined));
  leaving.abort(canceled('the container is to be removed'));
  await assert.rejects(creating, (error) => isKind(error, 'Canceled'));
});

await test(
  'kill -9 of the process that made it: a later process has the code and the whole log',
  needsRoot,
  async () => {
    await using fixture = await TaskFixture.make();
    const script = 'echo before; while [ ! -e /data/go ]; do sleep 0.05; done; echo after; exit 11';
    const { maker, task } = await makeElsewhere(fixture, ['sh', '-c', script]);
    await endNow(maker);
    assert.equal((await fixture.processes.view(task.pid))?.startTimeTicks, task.startTimeTicks);
    fixture.arm(task);
    await writeFile(`${fixture.dir}/logs/go`, '');
    const status = await fixture.exit(task.id);
    assert.equal(status.kind === 'exited' && status.code, 11);
    assert.equal(await fixture.log(task.id), 'before\nafter\n');
    await fixture.service.delete(op, task);
  },
);

await test('an exec cut off by kill -9 is ended by the next process', needsRoot, async () => {
  await using fixture = await TaskFixture.make();
  const { maker, task } = await makeElsewhere(fixture, ['sleep', '100000'], ['sleep', '7777']);
  await fixture.running(task, 'sleep 7777');
  await endNow(maker);
  assert.equal((await fixture.cgroups.procs(task.cgroupPath, true)).length, 2);
  assert.equal(await fixture.service.sweepExecs(op), 1);
  await until(
    'it to be gone',
    async () => (await fixture.cgroups.procs(task.cgroupPath, true)).length === 1 || undefined,
  );
  assert.equal(await fixture.service.sweepExecs(op), 0);
  const { exitCode } = await fixture.service.exec(op, task, { argv: ['true'] });
  assert.equal(exitCode, 0);
});

await test('an OOM kill in an exec that was cut off by kill -9 is known after it was ended', needsRoot, async () => {
  await using fixture = await TaskFixture.make();
  const resources = { memoryLimitBytes: 24 << 20, memorySwapLimitBytes: 24 << 20 };
  const exec = ['sh', '-c', 'tail -c 200000000 /dev/zero; sleep 7777'];
  const { maker, task } = await makeElsewhere(fixture, ['sleep', '100000'], exec, resources);
  await fixture.running(task, 'sleep 7777');
  await endNow(maker);
  assert.equal(await fixture.service.sweepExecs(op), 1);
  await until(
    'it to be gone',
    async () => (await fixture.cgroups.procs(task.cgroupPath, true))[1] === undefined || undefined,
  );
  fixture.arm(task);
  process.kill(task.pid, 'SIGKILL');
  const status = await fixture.exit(task.id);
  assert.equal(status.kind === 'exited' && status.oom, 'init');
});

await test('a create cut off by kill -9: what it left is found by bundle folder alone', needsRoot, async () => {
  await using fixture = await TaskFixture.make();
  const task = await fixture.shell('sleep 1000');
  const { id, bundleDir, cgroupPath, runtime } = task;
  await fixture.service.delete(op, { id, bundleDir, cgroupPath, runtime }, { force: true });
  for (const pid of [task.pid, task.conmonPid]) {
    assert.ok(await fixture.isGone(pid));
  }
});
