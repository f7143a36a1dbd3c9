import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { access, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { ContainerState, type ContainerStatus, type PodSandboxConfig } from '../../../src/cri/gen/api.ts';
import { isKind, messageOf } from '../../../src/lib/errors.ts';
import { isAlive, processIdentity } from '../../../src/linux/procfs.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { WrappedOciRuntime } from '../../support/wrapped-oci-runtime.ts';
import { eventually } from '../runtime/daemon-process.ts';
import { container, op, pod, RuntimeFixture } from '../runtime/runtime-fixture.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
let f: RuntimeFixture;
let oci: WrappedOciRuntime;
let leaks: LeakCheck;
let sandboxId: string;
const config = (): PodSandboxConfig => pod(f.root, 'parts');

before(async () => {
  if (skip !== false) return;
  f = await RuntimeFixture.make(async (root) => {
    oci = await WrappedOciRuntime.make(join(root.dir, 'oci'));
    return { ociRuntime: oci.path };
  });
  leaks = await LeakCheck.begin(f.root.leakRoots());
  sandboxId = await f.runSandbox(config());
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

interface Task {
  readonly pid: number;
  readonly startTimeTicks: number;
  readonly conmonPid: number;
  readonly conmonStartTimeTicks: number;
}

const exited = ({ state }: ContainerStatus): boolean => state === ContainerState.CONTAINER_EXITED;
const run = (name: string, ...command: string[]): Promise<string> =>
  f.runContainer(sandboxId, config(), container(name, command));
const create = (name: string): Promise<string> =>
  f.createContainer(sandboxId, config(), container(name, ['sleep', '600']));
const remove = async (containerId: string): Promise<void> => {
  await f.cri.removeContainer(op, { containerId });
};

async function taskOf(containerId: string): Promise<Task> {
  const { info } = await f.cri.containerStatus(op, { containerId, verbose: true });
  return (JSON.parse(info['info'] ?? '{}') as { state: { task: Task } }).state.task;
}

async function isListed(containerId: string): Promise<boolean> {
  const { containers } = await f.cri.listContainers(op, { filter: undefined });
  return containers.some(({ id }) => id === containerId);
}

const gone = (what: string, pid: number): Promise<boolean> =>
  eventually(
    async () => {
      const found = await processIdentity(pid);
      return found === undefined || found.state === 'Z';
    },
    Boolean,
    what,
  );

/** Waits for a file that the test makes in it, and ends with 5. */
const ON_DEMAND = ['sh', '-c', 'while ! test -e /tmp/go; do sleep 0.05; done; exit 5'];
const letGo = (pid: number): Promise<void> => writeFile(`/proc/${String(pid)}/root/tmp/go`, '');

test(
  'monitor killed: the container runs on and is served; its exit is true or unknown, never made up',
  { skip },
  async () => {
    const id = await run('orphan', 'sh', '-c', 'trap "exit 3" TERM; touch /tmp/ready; while :; do sleep 0.05; done');
    while ((await f.exec(id, 'stat', '/tmp/ready')).exitCode !== 0);
    const { conmonPid } = await taskOf(id);
    process.kill(conmonPid, 'SIGKILL');
    await gone('the end of the monitor', conmonPid);
    assert.equal((await f.status(id)).state, ContainerState.CONTAINER_RUNNING);
    assert.equal((await f.exec(id, 'echo', 'served')).stdout, 'served\n');
    await assert.rejects(f.cri.reopenContainerLog(op, { containerId: id }), (error) => isKind(error, 'Unavailable'));
    await f.stop(id, 60);
    const status = await f.status(id);
    assert.ok(exited(status));
    assert.match(status.message, /the end of the log may be missing/);
    // Older kernels forget a status that nobody of ours has read.
    if (status.reason === 'Unknown') assert.equal(status.exitCode, 255);
    else assert.equal(status.exitCode, 3);
    await remove(id);
  },
);

test('monitor stopped: the exit is told from the process table, nothing waits for the monitor', { skip }, async () => {
  const id = await run('stopped', ...ON_DEMAND);
  const { pid, conmonPid } = await taskOf(id);
  process.kill(conmonPid, 'SIGSTOP');
  await letGo(pid);
  const status = await f.waitFor(id, exited);
  assert.equal(status.exitCode, 5);
  assert.match(status.message, /the end of the log may be missing/);
  await remove(id);
  await gone('the end of the monitor', conmonPid);
});

test('monitor stopped while its container is stopped and removed: both succeed', { skip }, async () => {
  const id = await run('both', 'sleep', '600');
  const { conmonPid } = await taskOf(id);
  process.kill(conmonPid, 'SIGSTOP');
  await f.stop(id, 0);
  assert.equal((await f.status(id)).exitCode, 137);
  await remove(id);
  await gone('the end of the monitor', conmonPid);
});

test('exit file missing or torn after a restart: unknown, and no code is made of it', { skip }, async () => {
  const torn = ['', '\0\0\0', '9999', 'x', '-1'];
  const ids = await Promise.all(torn.map((_, index) => run(`torn-${String(index)}`, 'sleep', '600')));
  const tasks = await Promise.all(ids.map(taskOf));
  await f.restart(async () => {
    for (const [index, id] of ids.entries()) {
      const file = join(f.root.data, 'exits', id);
      process.kill(tasks[index]?.pid ?? 0, 'SIGKILL');
      await eventually(
        () => readFile(file, 'utf8').catch(() => ''),
        (text) => text === '137',
        'the exit file',
      );
      for (const exit of [file, join(f.root.state, 'exits', id)]) await writeFile(exit, torn[index] ?? '');
    }
  });
  for (const id of ids) {
    const status = await f.waitFor(id, exited);
    assert.equal(status.reason, 'Unknown');
    assert.equal(status.exitCode, 255);
    await remove(id);
  }
});

test('OCI runtime fails to create or to start: StartError in its words, and all is undone', { skip }, async () => {
  for (const command of ['create', 'start'] as const) {
    const id = await create(`fails-${command}`);
    await oci.fail(command, `told to fail at ${command}`, id);
    await assert.rejects(f.cri.startContainer(op, { containerId: id }), new RegExp(`told to fail at ${command}`));
    const status = await f.waitFor(id, exited);
    assert.equal(status.reason, 'StartError');
    assert.equal(status.exitCode, 128);
    assert.match(status.message, new RegExp(`told to fail at ${command}`));
    await oci.work(command, id);
    await remove(id);
  }
});

test(
  'OCI runtime hangs at create or at start: a stop or a removal ends that, and others start meanwhile',
  { skip },
  async () => {
    for (const command of ['create', 'start'] as const) {
      const stopped = await create(`stopped-in-${command}`);
      const removed = await create(`removed-in-${command}`);
      // More of them than are created at a time.
      const more = command === 'start' ? [] : await Promise.all([0, 1, 2].map((one) => create(`more-${String(one)}`)));
      const hung = [stopped, removed, ...more];
      const starts = hung.map(async (containerId) => {
        await oci.hang(command, containerId);
        await f.cri.startContainer(op, { containerId });
      });
      for (const start of starts) start.catch(() => undefined);
      await eventually(
        async () => {
          const { pending } = await f.runtime.inspector.explain(op, { subject: { podName: 'parts' } });
          return pending.filter(({ message }) => message.startsWith('start the container: waiting for ')).length;
        },
        (hanging) => hanging === hung.length,
        'starts that hang, in the open',
      );
      const other = await run(`beside-${command}`, 'true');
      assert.equal((await f.waitFor(other, exited)).exitCode, 0);
      await f.stop(stopped, 0);
      for (const id of [removed, ...more]) await remove(id);
      for (const start of starts) await assert.rejects(start);
      const { entries } = await f.runtime.inspector.explain(op, { subject: { containerId: removed } });
      const told = entries.filter(({ what }) => what === 'container.start');
      assert.deepEqual(
        told.map(({ message, outcome }) => ({ message, outcome })),
        [{ message: 'start broken off: RemoveContainer was called', outcome: 'failed' }],
      );
      const status = await f.status(stopped);
      assert.ok(exited(status), 'and it does not start later');
      assert.notEqual(status.exitCode, 0);
      assert.equal(await isListed(removed), false);
      for (const id of hung) await oci.work(command, id);
      await remove(stopped);
      await remove(other);
    }
  },
);

test(
  'OCI runtime fails to delete: the exit is known, the removal says why, and is finished by itself',
  { skip },
  async () => {
    const id = await run('undeletable', ...ON_DEMAND);
    const { pid } = await taskOf(id);
    await oci.fail('delete', 'told to fail at delete', id);
    await letGo(pid);
    const status = await f.waitFor(id, exited);
    assert.equal(status.exitCode, 5);
    await eventually(
      () => f.runtime.inspector.pendingWork(op, { containerId: id }),
      (items) => items.some(({ lastError }) => lastError?.includes('told to fail at delete')),
      'the failure in what is pending',
    );
    await assert.rejects(remove(id), /told to fail at delete/);
    const stuck = await eventually(
      async () =>
        (await f.runtime.inspector.doctor(op, { fix: false })).findings.find(
          ({ kind, key }) => kind === 'container' && key === id,
        ),
      (finding) => finding !== undefined,
      'the doctor names what goes on failing',
    );
    assert.equal(stuck?.problem, 'blocked');
    assert.match(
      stuck.message,
      /undeletable of pod default\/parts: .* not finished after \d+ attempts, .*told to fail at delete/,
    );
    await oci.work('delete', id);
    await eventually(
      () => isListed(id),
      (listed) => !listed,
      'the removal that was asked for',
    );
  },
);

/** What the OCI runtime wrote down of it: crun in `status`, runc in `state.json`. */
async function recordOf(id: string): Promise<string> {
  for (const name of await readdir(f.root.state)) {
    for (const file of ['status', 'state.json']) {
      const path = join(f.root.state, name, id, file);
      if (
        name.startsWith('oci-') &&
        (await access(path).then(
          () => true,
          () => false,
        ))
      )
        return path;
    }
  }
  throw new Error(`the OCI runtime has no record of ${id}`);
}

test(
  "OCI runtime's record is torn: the exit is true, the container goes, and the journal says what was taken away",
  { skip },
  async () => {
    const torn = ['', '\0\0\0\0', '{garbage', '{"pid":'];
    const ids = await Promise.all(torn.map((_, index) => run(`torn-record-${String(index)}`, 'sleep', '600')));
    for (const [index, id] of ids.entries()) {
      const record = await recordOf(id);
      await writeFile(record, torn[index] ?? '');
      // Whatever it calls that: what the record is like counts, not the words.
      await oci.fail('delete', 'told to fail at delete', id);
      await f.stop(id, 0);
      assert.equal((await f.status(id)).exitCode, 137);
      await remove(id);
      assert.equal(await isListed(id), false);
      await assert.rejects(access(dirname(record)), { code: 'ENOENT' });
      const { entries } = await f.runtime.inspector.explain(op, { subject: { containerId: id } });
      const told = entries.filter(({ what }) => what === 'container.record-torn');
      assert.equal(told.length, 1);
      assert.match(told[0]?.message ?? '', /told to fail at delete.*cannot be read.*taken away/);
      await oci.work('delete', id);
    }
    // As runc and crun themselves take it, whether they fail or know no such container.
    const own = await run('torn-for-itself', 'sleep', '600');
    await writeFile(await recordOf(own), '{garbage');
    await f.stop(own, 0);
    await remove(own);
    assert.equal(await isListed(own), false);
  },
);

test(
  'OCI runtime hangs or fails at exec: the call ends in time, and the container does not notice',
  { skip },
  async () => {
    const id = await run('execs', 'sleep', '600');
    await oci.hang('exec', id);
    const call = { containerId: id, cmd: ['true'], timeout: 1n };
    await assert.rejects(f.cri.execSync(op, call), (error) => isKind(error, 'DeadlineExceeded'));
    await oci.work('exec', id);
    await oci.fail('exec', 'told to fail at exec', id);
    await assert.rejects(f.cri.execSync(op, call), (error) => /told to fail at exec/.test(messageOf(error)));
    await oci.work('exec', id);
    assert.equal((await f.exec(id, 'echo', 'again')).stdout, 'again\n');
    await f.stop(id, 0);
    await remove(id);
  },
);

test(
  "a recorded pid that is a stranger's by now is never signalled, nor taken for the container",
  { skip },
  async () => {
    const id = await run('renumbered', 'sleep', '600');
    const { pid, conmonPid } = await taskOf(id);
    const strangers = [spawn('sleep', ['600'], { stdio: 'ignore' }), spawn('sleep', ['600'], { stdio: 'ignore' })];
    try {
      const pids = strangers.map((stranger) => stranger.pid ?? 0);
      const found = await Promise.all(pids.map(processIdentity));
      // As after a long time in which the numbers have come round: number of a stranger, start time of the container.
      const renumber = (text: string): string => {
        const record = JSON.parse(text) as { pid?: number; conmonPid?: number; state?: { task?: object } };
        const inside = { pid: pids[0], conmonPid: pids[1] };
        if (record.state?.task !== undefined) {
          return JSON.stringify({ ...record, state: { ...record.state, task: { ...record.state.task, ...inside } } });
        }
        return JSON.stringify(record.pid === undefined ? record : { ...record, ...inside });
      };
      await f.restart(async () => {
        using durable = new DatabaseSync(join(f.root.data, 'runtime.db'));
        const row = durable.prepare('SELECT status FROM containers WHERE id = ?').get(id) as { status: string };
        durable.prepare('UPDATE containers SET status = ? WHERE id = ?').run(renumber(row.status), id);
        using volatile = new DatabaseSync(join(f.root.state, 'volatile.db'));
        const entry = volatile.prepare("SELECT data FROM ledger WHERE kind = 'task' AND key = ?").get(id) as {
          data: string;
        };
        volatile.prepare("UPDATE ledger SET data = ? WHERE kind = 'task' AND key = ?").run(renumber(entry.data), id);
        for (const one of [conmonPid, pid]) {
          process.kill(one, 'SIGKILL');
          await gone('the end of what nobody looks at', one);
        }
      });
      const status = await f.waitFor(id, exited);
      assert.equal(status.reason, 'Unknown');
      await f.stop(id, 0);
      await remove(id);
      for (const [index, identity] of found.entries()) {
        assert.ok(identity !== undefined && (await isAlive(identity)), `stranger ${String(index)} lives`);
      }
    } finally {
      for (const stranger of strangers) stranger.kill('SIGKILL');
    }
  },
);
