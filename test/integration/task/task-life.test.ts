import assert from 'node:assert/strict';
import { readFile, readdir, rename, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { isKind, type GantryError } from '../../../src/lib/errors.ts';
import { needsRoot, op, TaskFixture, until } from './task-fixture.ts';

await test('exit codes arrive as they were', needsRoot, async (t) => {
  await using fixture = await TaskFixture.make();
  for (const code of [0, 7, 137]) {
    await t.test(`exit ${code}`, async () => {
      const task = await fixture.shell(`exit ${code}`);
      const status = await fixture.exit(task.id);
      assert.equal(status.kind, 'exited');
      assert.equal(status.code, code);
      // Only a kernel that keeps the status of a reaped process tells `exit 137` from a SIGKILL.
      if (code === 137) assert.ok(status.signal === undefined || status.signalGuessed === true);
      else assert.equal(status.signal, undefined);
      assert.equal((await fixture.service.readExit(task.id))?.code, code);
      await fixture.service.delete(op, task);
      await fixture.service.delete(op, task);
      await fixture.service.forgetExit(task.id);
      assert.equal(await fixture.service.readExit(task.id), undefined);
    });
  }
  await t.test('SIGKILL through the pidfd', async () => {
    const task = await fixture.shell('sleep 1000');
    assert.equal(await fixture.service.signal(op, task, 9), true);
    const status = await fixture.exit(task.id);
    assert.equal(status.kind, 'exited');
    assert.deepEqual([status.code, status.signal, status.oom], [137, 9, undefined]);
    await until(
      'the process to be reaped',
      async () => (await fixture.processes.view(task.pid)) === undefined || undefined,
    );
    assert.equal(await fixture.service.signal(op, task, 9), false);
  });
  for (const statuses of fixture.exits.values()) assert.equal(statuses.length, 1);
});

await test('a recorded pid that is another process now is not signalled', needsRoot, async () => {
  await using fixture = await TaskFixture.make();
  const task = await fixture.shell('sleep 1000');
  const stranger = { ...task, startTimeTicks: task.startTimeTicks - 1 };
  assert.equal(await fixture.service.signal(op, stranger, 9), false);
  assert.equal((await fixture.processes.view(task.pid))?.startTimeTicks, task.startTimeTicks);
});

await test('a command that does not exist: NotFound in the words of the runtime, nothing left', needsRoot, async () => {
  await using fixture = await TaskFixture.make();
  const request = await fixture.request({ argv: ['no-such-command'] });
  await assert.rejects(fixture.service.create(op, request), (error: GantryError) => {
    assert.equal(error.kind, 'NotFound');
    assert.match(error.message, /no-such-command/);
    assert.equal(error.details['leftBehind'], undefined);
    return true;
  });
  assert.deepEqual(await readdir(request.bundleDir), []);
  assert.equal(await fixture.service.readExit(request.id), undefined);
  assert.equal(await fixture.cgroups.exists(request.cgroupPath), false);
  await assert.rejects(fixture.create({ argv: ['/etc'] }), (error) => isKind(error, 'PermissionDenied'));
});

await test('what fails to be mounted fails the create and leaves nothing', needsRoot, async () => {
  await using fixture = await TaskFixture.make();
  const mounts = [{ containerPath: '/data', hostPath: '/no/such/folder' }];
  await assert.rejects(fixture.create({ argv: ['true'], spec: { mounts } }), /no such file/i);
});

await test('a running task is not deleted, unless by force', needsRoot, async () => {
  await using fixture = await TaskFixture.make();
  const task = await fixture.shell('sleep 1000');
  await assert.rejects(fixture.service.delete(op, task), (error) => isKind(error, 'FailedPrecondition'));
  await fixture.service.delete(op, task, { force: true });
  const created = await fixture.create({ argv: ['true'] });
  await assert.rejects(fixture.service.delete(op, created), (error) => isKind(error, 'FailedPrecondition'));
  await fixture.service.delete(op, created, { force: true });
});

await test('a task is deleted without the OCI runtime that made it, when that was uninstalled', needsRoot, async () => {
  await using fixture = await TaskFixture.make();
  const { name, path, root } = fixture.runtime.location;
  const wrapper = join(fixture.dir, 'runtime-of-yesterday');
  await writeFile(wrapper, `#!/bin/sh\nexec ${path} "$@"\n`, { mode: 0o755 });
  const { service } = fixture;
  const request = { runtime: { name, path: wrapper, root } };
  const task = await service.create(
    op,
    await fixture.request({ argv: ['sh', '-c', 'setsid sleep 1000 & sleep 1000'], request }),
  );
  await service.start(op, task);
  await unlink(wrapper);
  await service.delete(op, task, { force: true });
  for (const pid of [task.pid, task.conmonPid]) {
    assert.ok(await fixture.isGone(pid));
  }
  assert.equal(await fixture.cgroups.exists(task.cgroupPath), false);
  assert.deepEqual(
    (await readdir(root)).filter((id) => id === task.id),
    [],
  );
  await service.delete(op, task, { force: true });
});

await test('what a shared PID namespace leaves alive dies with the task', needsRoot, async () => {
  await using fixture = await TaskFixture.make();
  const namespaces = {
    pid: { kind: 'host' },
    ipc: { kind: 'new' },
    uts: { kind: 'new' },
    network: { kind: 'new' },
  } as const;
  const task = await fixture.shell('setsid sleep 1000 & exit 3', { spec: { namespaces } });
  const status = await fixture.exit(task.id);
  assert.equal(status.kind === 'exited' && status.code, 3);
  assert.equal((await fixture.cgroups.procs(task.cgroupPath, true)).length, 1);
  await fixture.service.delete(op, task);
  assert.equal(await fixture.cgroups.exists(task.cgroupPath), false);
});

await test('the last byte is in the log before the exit is told', needsRoot, async () => {
  await using fixture = await TaskFixture.make();
  for (let round = 0; round < 5; round++) {
    const task = await fixture.shell('head -c 300000 /dev/zero | tr "\\0" x; printf END');
    const status = await fixture.exit(task.id);
    const log = await fixture.log(task.id);
    assert.equal(status.logMayBeIncomplete, undefined);
    assert.equal(log.length, 300_003);
    assert.ok(log.endsWith('xEND'));
    await fixture.service.delete(op, task);
  }
});

await test('a log is reopened after it was renamed, and left alone otherwise', needsRoot, async () => {
  await using fixture = await TaskFixture.make();
  const task = await fixture.shell('echo one; while [ ! -e /data/go ]; do sleep 0.05; done; echo two; sleep 1000', {
    spec: { mounts: [{ containerPath: '/data', hostPath: `${fixture.dir}/logs` }] },
  });
  await until('the first line', async () => (await fixture.log(task.id)) === 'one\n' || undefined);
  await fixture.service.reopenLog(op, task);
  assert.equal(await fixture.log(task.id), 'one\n');
  await rename(fixture.logOf(task.id), `${fixture.logOf(task.id)}.1`);
  await fixture.service.reopenLog(op, task);
  assert.equal(await fixture.log(task.id), '');
  await rename(`${fixture.logOf(task.id)}.1`, `${fixture.dir}/logs/go`);
  await until('the second line', async () => (await fixture.log(task.id)) === 'two\n' || undefined);
  assert.match(await readFile(`${fixture.dir}/logs/go`, 'utf8'), /one\n$/);
});

await test(
  'a log whose container has ended meanwhile is not reopened, and nobody waits for it',
  needsRoot,
  async () => {
    await using fixture = await TaskFixture.make();
    const hasEnded = (error: unknown): boolean => isKind(error, 'FailedPrecondition');

    const before = await fixture.shell('echo one');
    await fixture.exit(before.id);
    await until('its monitor to be gone', async () => (await fixture.isGone(before.conmonPid)) || undefined);
    await assert.rejects(fixture.service.reopenLog(op, before), hasEnded);

    const during = await fixture.shell('echo one; sleep 1000');
    await until('the first line', async () => (await fixture.log(during.id)) === 'one\n' || undefined);
    await rename(fixture.logOf(during.id), `${fixture.logOf(during.id)}.1`);
    process.kill(during.conmonPid, 'SIGSTOP');
    const reopened = assert.rejects(fixture.service.reopenLog(op, during), hasEnded);
    await fixture.service.signal(op, during, 9);
    await until('its process to be gone', async () => (await fixture.isGone(during.pid)) || undefined);
    process.kill(during.conmonPid, 'SIGKILL');
    await reopened;
  },
);

await test('many at once: every code is right', needsRoot, async () => {
  await using fixture = await TaskFixture.make();
  const tasks = await Promise.all(Array.from({ length: 12 }, (_, index) => fixture.shell(`exit ${index}`)));
  for (const [index, task] of tasks.entries()) {
    const status = await fixture.exit(task.id);
    assert.equal(status.kind === 'exited' && status.code, index);
  }
});
