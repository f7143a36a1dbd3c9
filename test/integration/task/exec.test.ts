import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EXEC_OUTPUT_CAP_BYTES } from '../../../src/cri/exec-output-cap.ts';
import { canceled, isKind } from '../../../src/lib/errors.ts';
import { readComm } from '../../../src/linux/procfs.ts';
import type { Task } from '../../../src/runtime/task/task.ts';
import { needsRoot, op, TaskFixture, until } from './task-fixture.ts';

async function onlyInit(fixture: TaskFixture, task: Task): Promise<void> {
  await until('the exec to be gone', async () => {
    const pids = await fixture.cgroups.procs(task.cgroupPath, true);
    return pids.length === 1 && pids[0] === task.pid ? true : undefined;
  });
}

const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString('utf8');

await test('exec', needsRoot, async (t) => {
  await using fixture = await TaskFixture.make();
  const task = await fixture.shell('sleep 100000');
  const exec = (argv: readonly string[], more: object = {}) => fixture.service.exec(op, task, { argv, ...more });

  await t.test('code and both streams', async () => {
    const outcome = await exec(['sh', '-c', 'echo out; echo err >&2; exit 3']);
    assert.deepEqual(
      [outcome.exitCode, text(outcome.stdout), text(outcome.stderr), outcome.truncated],
      [3, 'out\n', 'err\n', false],
    );
  });

  await t.test('its streams can be opened by name', async () => {
    const outcome = await exec(['sh', '-c', 'echo out >/dev/stdout; echo err >/dev/stderr']);
    assert.deepEqual([outcome.exitCode, text(outcome.stdout), text(outcome.stderr)], [0, 'out\n', 'err\n']);
  });

  await t.test('environment', async () => {
    const outcome = await exec(['sh', '-c', 'echo $PATH $EXTRA'], { env: ['EXTRA=yes'] });
    assert.equal(text(outcome.stdout), '/bin yes\n');
  });

  await t.test('a signal is 128 + n', async () => {
    assert.equal((await exec(['sh', '-c', 'kill -9 $$'])).exitCode, 137);
  });

  await t.test('a missing command is NotFound in the words of the runtime', async () => {
    await assert.rejects(exec(['no-such-command']), (error) => isKind(error, 'NotFound'));
    await assert.rejects(exec(['/etc']), (error) => isKind(error, 'PermissionDenied'));
    await assert.rejects(exec([]), (error) => isKind(error, 'InvalidArgument'));
  });

  await t.test('a timeout kills all that it started, also what left its session', async () => {
    const script = 'sleep 5000 & (setsid sleep 5001 &); sleep 5002';
    await assert.rejects(exec(['sh', '-c', script], { timeoutMs: 1_500 }), (error) =>
      isKind(error, 'DeadlineExceeded'),
    );
    await onlyInit(fixture, task);
  });

  await t.test('a caller that leaves ends it', async () => {
    const leaving = new AbortController();
    const running = fixture.service.exec({ ...op, signal: leaving.signal }, task, { argv: ['sleep', '5000'] });
    running.catch(() => undefined);
    await fixture.running(task, 'sleep 5000');
    leaving.abort(canceled('the client left'));
    await assert.rejects(running, (error) => isKind(error, 'Canceled'));
    await onlyInit(fixture, task);
  });

  await t.test('a background process that holds the pipes delays nothing and lives on', async () => {
    const outcome = await exec(['sh', '-c', 'sleep 4000 & echo hi; exit 4']);
    assert.deepEqual([outcome.exitCode, text(outcome.stdout)], [4, 'hi\n']);
    process.kill(await fixture.running(task, 'sleep 4000'), 'SIGKILL');
    await onlyInit(fixture, task);
  });

  await t.test('16 MB per stream, the rest thrown away', async () => {
    const outcome = await exec(['sh', '-c', 'head -c 20000000 /dev/zero; echo done >&2']);
    assert.deepEqual([outcome.exitCode, outcome.stdout.length, outcome.truncated], [0, EXEC_OUTPUT_CAP_BYTES, true]);
    assert.equal(text(outcome.stderr), 'done\n');
  });

  await t.test('its monitor killed: said so, and the command is not left behind', async () => {
    const running = exec(['sleep', '3000']);
    running.catch(() => undefined);
    const pid = await fixture.running(task, 'sleep 3000');
    const monitor = await until('its monitor', async () => {
      // At first the OCI runtime is its parent.
      const parent = (await fixture.processes.view(pid))?.ppid ?? 0;
      return (await readComm(parent)) === 'conmon' ? parent : undefined;
    });
    process.kill(monitor, 'SIGKILL');
    await assert.rejects(running, (error) => isKind(error, 'Unavailable'));
    await onlyInit(fixture, task);
  });

  await t.test('many at once leave the container alone', async () => {
    const codes = await Promise.all(Array.from({ length: 8 }, (_, code) => exec(['sh', '-c', `exit ${code}`])));
    assert.deepEqual(
      codes.map((outcome) => outcome.exitCode),
      [0, 1, 2, 3, 4, 5, 6, 7],
    );
    assert.equal(await fixture.service.readExit(task.id), undefined);
    assert.equal(fixture.exits.size, 0);
  });

  await t.test('the end of the container ends it', async () => {
    const running = exec(['sleep', '3001']);
    await fixture.running(task, 'sleep 3001');
    await fixture.service.signal(op, task, 9);
    assert.equal((await running).exitCode, 137);
    assert.equal((await fixture.exit(task.id)).kind, 'exited');
    await assert.rejects(exec(['true']), (error) => isKind(error, 'FailedPrecondition'));
  });
});

await test("an exec has the container's user and rights", needsRoot, async () => {
  await using fixture = await TaskFixture.make();
  const task = await fixture.shell('sleep 100000', {
    spec: {
      user: { uid: 1234, gid: 1235, additionalGids: [1235, 7] },
      dropCapabilities: ['ALL'],
      noNewPrivileges: true,
    },
  });
  const outcome = await fixture.service.exec(op, task, {
    argv: ['sh', '-c', 'id -u; id -G; grep -E "^(CapEff|CapBnd|NoNewPrivs)" /proc/self/status'],
  });
  assert.equal(
    text(outcome.stdout).replaceAll('\t', ' '),
    '1234\n1235 7\nCapEff: 0000000000000000\nCapBnd: 0000000000000000\nNoNewPrivs: 1\n',
  );
});
