import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { canceled, isKind } from '../../../src/lib/errors.ts';
import type { AttachRequest, Task } from '../../../src/runtime/task/task.ts';
import { TestRemote, type RemoteOptions } from '../../support/remote-command.ts';
import { needsRoot, op, TaskFixture, until, type RunOptions } from './task-fixture.ts';

interface Attached {
  readonly remote: TestRemote;
  readonly ended: Promise<void>;
  readonly vanish: () => void;
}

function attach(
  fixture: TaskFixture,
  task: Task,
  stdin: AttachRequest['stdin'],
  options: RemoteOptions = {},
): Attached {
  const remote = new TestRemote(options);
  const client = new AbortController();
  const ended = fixture.service.attach({ ...op, signal: client.signal }, task, { stdin }, remote);
  const over = (): void => remote.end();
  ended.then(over, over);
  const vanish = (): void => {
    remote.end();
    client.abort(canceled('the client has vanished'));
  };
  return { remote, ended, vanish };
}

const STDIN_ONCE = { request: { stdin: true, stdinOnce: true } };
const STDIN_STAYS = { request: { stdin: true, stdinOnce: false } };
const TERMINAL: Omit<RunOptions, 'argv'> = {
  request: { stdin: true, stdinOnce: true, terminal: true },
  spec: { terminal: true },
};
const READER =
  'echo ready; while read line; do echo "got:$line"; echo "err:$line" >&2; done; echo end of stdin; exit 5';

/** Attaching returns nothing to wait for: output that comes shows that it is done. */
async function isAttached(fixture: TaskFixture): Promise<void> {
  await until('the connection', () => (fixture.packets.size > 0 ? true : undefined));
}

const shows = (remote: TestRemote, wanted: RegExp): Promise<true> =>
  until(`${String(wanted)} in ${remote.out}`, () => (wanted.test(remote.out) ? true : undefined));

const logged = (fixture: TaskFixture, task: Task, wanted: RegExp): Promise<true> =>
  until(`${String(wanted)} in the log`, async () => (wanted.test(await fixture.log(task.id)) ? true : undefined));

await test('attach', needsRoot, async (t) => {
  await using fixture = await TaskFixture.make();

  await t.test('both ways, each stream on its own, nothing from before, until the container ends', async () => {
    const task = await fixture.shell(READER, STDIN_ONCE);
    await logged(fixture, task, /ready/);
    const { remote, ended } = attach(fixture, task, 'closes', { stdin: true });
    remote.type('one\n');
    await shows(remote, /got:one/);
    remote.type('two\n');
    remote.closeStdin();
    await ended;
    assert.deepEqual([remote.out, remote.err], ['got:one\ngot:two\nend of stdin\n', 'err:one\nerr:two\n']);
    assert.deepEqual(await fixture.exit(task.id).then(({ kind }) => kind), 'exited');
    await assert.rejects(attach(fixture, task, 'closes').ended, (error) => isKind(error, 'FailedPrecondition'));
    assert.match(await fixture.log(task.id), /ready\ngot:one/);
  });

  await t.test('stdin once: a client that vanishes takes it along', async () => {
    const task = await fixture.shell(READER, STDIN_ONCE);
    await logged(fixture, task, /ready/);
    const { remote, vanish, ended } = attach(fixture, task, 'closes', { stdin: true });
    remote.type('one\n');
    await shows(remote, /got:one/);
    vanish();
    await assert.rejects(ended, (error) => isKind(error, 'Canceled'));
    await fixture.exit(task.id);
    await logged(fixture, task, /end of stdin/);
  });

  await t.test('stdin once: one that only looks on takes nothing along', async () => {
    const task = await fixture.shell(READER, STDIN_ONCE);
    await logged(fixture, task, /ready/);
    for (let round = 0; round < 3; round++) {
      const onlooker = attach(fixture, task, 'closes');
      await isAttached(fixture);
      onlooker.vanish();
      await assert.rejects(onlooker.ended);
    }
    assert.equal(fixture.packets.size, 1, 'one connection is kept for the next client');
    const { remote, ended } = attach(fixture, task, 'closes', { stdin: true });
    assert.equal(fixture.packets.size, 1);
    remote.type('one\n');
    await shows(remote, /got:one/);
    remote.closeStdin();
    await ended;
    await fixture.exit(task.id);
    assert.equal(fixture.packets.size, 0);
  });

  await t.test('stdin that stays: a client that closes its own is done, the next one goes on', async () => {
    const task = await fixture.shell(READER, STDIN_STAYS);
    await logged(fixture, task, /ready/);
    for (const word of ['one', 'two']) {
      const { remote, ended } = attach(fixture, task, 'stays', { stdin: true });
      remote.type(`${word}\n`);
      await shows(remote, new RegExp(`got:${word}`));
      remote.closeStdin();
      await ended;
      assert.equal(remote.out, `got:${word}\n`);
    }
    assert.equal(fixture.exits.get(task.id), undefined);
  });

  await t.test('several at once see the same, and one that does not read holds nobody up', async () => {
    const script =
      'read line; i=0; while [ $i -lt 20 ]; do head -c 1048576 /dev/zero; i=$((i+1)); done; echo; echo written; cat';
    const task = await fixture.shell(script, STDIN_STAYS);
    const stalled = attach(fixture, task, 'stays', { stalled: true });
    const watching = [attach(fixture, task, 'stays'), attach(fixture, task, 'stays')];
    for (const { remote } of watching) remote.keep = false;
    const typing = attach(fixture, task, 'stays', { stdin: true, stdout: false, stderr: false });
    typing.remote.type('go\n');
    await assert.rejects(stalled.ended, (error) => isKind(error, 'ResourceExhausted'));
    await until('the end of the output', async () =>
      (await readFile(fixture.logOf(task.id), 'latin1')).trimEnd().endsWith('F written') ? true : undefined,
    );
    for (const { remote } of watching) {
      await until('all of it', () => (remote.receivedBytes === 20 * 1048576 + '\nwritten\n'.length ? true : undefined));
    }
    for (const { vanish } of [...watching, typing]) vanish();
    for (const { ended } of [...watching, typing]) await assert.rejects(ended);
    assert.equal(fixture.packets.size, 0);
  });

  await t.test('much input arrives whole, however slowly it is read', async () => {
    const task = await fixture.shell('sleep 0.5; wc -c', STDIN_ONCE);
    const { remote, ended } = attach(fixture, task, 'closes', { stdin: true });
    for (let round = 0; round < 40; round++) remote.type(Buffer.alloc(100_000, 'x'));
    remote.closeStdin();
    await ended;
    assert.equal(remote.out.trim(), '4000000');
  });

  await t.test('without a stdin of the container what is typed is thrown away', async () => {
    const task = await fixture.shell('cat; echo ready; sleep 1; echo over');
    await logged(fixture, task, /ready/);
    const { remote, ended } = attach(fixture, task, 'none', { stdin: true });
    remote.type(Buffer.alloc(1_000_000));
    remote.closeStdin();
    await ended;
    assert.equal(remote.out, 'over\n');
  });

  await t.test(
    'a terminal: what is typed is shown, the last of many sizes is set, and the next client finds it open',
    async () => {
      const script = 'trap "stty size" WINCH; echo ready; while :; do read line && echo "got:$line"; done';
      const task = await fixture.shell(script, TERMINAL);
      await logged(fixture, task, /ready/);
      for (const columns of [100, 120]) {
        const { remote, ended } = attach(fixture, task, 'stays', { stdin: true, stderr: false });
        for (let width = columns - 30; width <= columns; width++) remote.resize(width, 30);
        await shows(remote, new RegExp(`30 ${columns}\r\n`));
        remote.type('word\n');
        await shows(remote, /word\r\ngot:word\r\n/);
        remote.closeStdin();
        await ended;
      }
      await fixture.service.signal(op, task, 9);
      await fixture.exit(task.id);
    },
  );
});
