import assert from 'node:assert/strict';
import { test } from 'node:test';
import { canceled, isKind } from '../../../src/lib/errors.ts';
import type { Task } from '../../../src/runtime/task/task.ts';
import { TestRemote, type RemoteOptions } from '../../support/remote-command.ts';
import { needsRoot, op, TaskFixture, until } from './task-fixture.ts';

async function onlyInit(fixture: TaskFixture, task: Task): Promise<void> {
  await until('the exec to be gone', async () => {
    const pids = await fixture.cgroups.procs(task.cgroupPath, true);
    return pids.length === 1 && pids[0] === task.pid ? true : undefined;
  });
}

interface Session {
  readonly remote: TestRemote;
  readonly code: Promise<number>;
  readonly vanish: () => void;
}

class Sessions {
  readonly fixture: TaskFixture;
  readonly task: Task;

  constructor(fixture: TaskFixture, task: Task) {
    this.fixture = fixture;
    this.task = task;
  }

  begin(argv: readonly string[], options: RemoteOptions & { readonly terminal?: boolean } = {}): Session {
    const { terminal = false, ...more } = options;
    const remote = new TestRemote({ ...more, ...(terminal ? { stderr: false } : {}) });
    const client = new AbortController();
    const request = { argv, terminal };
    const code = this.fixture.service.streamExec({ ...op, signal: client.signal }, this.task, request, remote);
    code.catch(() => undefined);
    void code.then(
      () => remote.end(),
      () => remote.end(),
    );
    const vanish = (): void => {
      remote.end();
      client.abort(canceled('the client has vanished'));
    };
    return { remote, code, vanish };
  }

  sh(script: string, options?: RemoteOptions & { readonly terminal?: boolean }): Session {
    return this.begin(['sh', '-c', script], options);
  }
}

await test('exec with streams', needsRoot, async (t) => {
  await using fixture = await TaskFixture.make();
  const task = await fixture.shell('sleep 100000');
  const sessions = new Sessions(fixture, task);

  await t.test('code and both streams', async () => {
    const { remote, code } = sessions.sh('echo out; echo err >&2; exit 3');
    assert.deepEqual([await code, remote.out, remote.err], [3, 'out\n', 'err\n']);
  });

  await t.test('stdin until its end, and nothing there is /dev/null', async () => {
    const typed = sessions.sh('cat; echo done', { stdin: true });
    typed.remote.type('one\n');
    await until('the echo', () => (typed.remote.out === 'one\n' ? true : undefined));
    typed.remote.type('two\n');
    typed.remote.closeStdin();
    assert.deepEqual([await typed.code, typed.remote.out], [0, 'one\ntwo\ndone\n']);
    const none = sessions.sh('cat; readlink /proc/self/fd/0');
    assert.deepEqual([await none.code, none.remote.out], [0, '/dev/null\n']);
  });

  await t.test('streams that were not asked for are thrown away', async () => {
    const { remote, code } = sessions.sh('echo out; echo err >&2', { stderr: false });
    assert.deepEqual([await code, remote.out, remote.err], [0, 'out\n', '']);
  });

  await t.test('a command that ends without reading its stdin ends the session', async () => {
    const { remote, code } = sessions.sh('exec <&-; sleep 0.3; echo still here', { stdin: true });
    remote.type(Buffer.alloc(1_000_000));
    assert.deepEqual([await code, remote.out], [0, 'still here\n']);
  });

  await t.test('a missing command is 127, one that may not be run 126, with the words on stderr', async () => {
    const missing = sessions.begin(['no-such-command']);
    assert.equal(await missing.code, 127);
    assert.match(missing.remote.err, /no-such-command/);
    assert.equal(missing.remote.out, '');
    assert.equal(await sessions.begin(['/etc']).code, 126);
    const terminal = sessions.begin(['no-such-command'], { terminal: true });
    assert.equal(await terminal.code, 127);
    assert.match(terminal.remote.out, /no-such-command.*\r\n$/);
    await assert.rejects(sessions.begin([]).code, (error) => isKind(error, 'InvalidArgument'));
  });

  await t.test('megabytes both ways arrive whole', async () => {
    const { remote, code } = sessions.sh('cat', { stdin: true });
    const block = Buffer.alloc(1024 * 1024, 'x');
    for (let round = 0; round < 16; round++) remote.stdin?.write(block);
    remote.closeStdin();
    assert.equal(await code, 0);
    assert.equal(remote.receivedBytes, 16 * block.length);
  });

  await t.test('a client that does not read holds the command up, and costs no memory', async () => {
    const { remote, code } = sessions.sh('head -c 20000000 /dev/zero; echo done >&2', { stalled: true });
    await until('the first bytes', () => (remote.receivedBytes > 0 ? true : undefined));
    await new Promise((next) => setTimeout(next, 500));
    assert.ok(remote.receivedBytes < 1_000_000, `${remote.receivedBytes} bytes were read ahead`);
    assert.equal(remote.err, '');
    remote.takeOn();
    assert.equal(await code, 0);
    assert.equal(remote.receivedBytes, 20_000_000 + 'done\n'.length);
  });

  await t.test('what was written before the end arrives, however late it is read', async () => {
    const { remote, code } = sessions.sh('sleep 4100 & head -c 50000 /dev/zero', { stalled: true });
    await new Promise((next) => setTimeout(next, 1_000));
    remote.takeOn();
    assert.equal(await code, 0);
    assert.equal(remote.receivedBytes, 50_000);
    process.kill(await fixture.running(task, 'sleep 4100'), 'SIGKILL');
    await onlyInit(fixture, task);
  });

  await t.test(
    'a background process that holds the streams, or writes for ever, keeps nobody and lives on',
    async () => {
      for (const background of ['sleep 4000', 'while :; do echo more; done']) {
        const { remote, code } = sessions.sh(`(${background}) & echo hi; exit 4`, { stdin: true });
        assert.equal(await code, 4);
        assert.match(remote.out, /^(more\n)*hi\n/);
        if (background.startsWith('sleep')) process.kill(await fixture.running(task, background), 'SIGKILL');
        await onlyInit(fixture, task);
      }
    },
  );

  await t.test('without a terminal all is killed when the client vanishes', async () => {
    const { code, vanish } = sessions.sh('sleep 5000 & (setsid sleep 5001 &); sleep 5002', { stdin: true });
    await fixture.running(task, 'sleep 5002');
    vanish();
    await assert.rejects(code, (error) => isKind(error, 'Canceled'));
    await onlyInit(fixture, task);
  });

  await t.test('a signal is 128 + n', async () => {
    assert.equal(await sessions.sh('kill -9 $$').code, 137);
  });

  await t.test('many at once', async () => {
    const codes = await Promise.all(
      Array.from({ length: 8 }, (_, code) => sessions.sh(`exit ${code}`, { terminal: code % 2 === 0 }).code),
    );
    assert.deepEqual(codes, [0, 1, 2, 3, 4, 5, 6, 7]);
  });
});

await test('exec with a terminal', needsRoot, async (t) => {
  await using fixture = await TaskFixture.make();
  const task = await fixture.shell('sleep 100000');
  const sessions = new Sessions(fixture, task);

  await t.test('it is one, with the size that the client has from the beginning', async () => {
    const { remote, code } = sessions.sh('test -t 0 && test -t 1 && test -t 2 && stty size', { terminal: true });
    remote.resize(132, 43);
    assert.deepEqual([await code, remote.out], [0, '43 132\r\n']);
  });

  await t.test('its kind is said to the command, and to none without a terminal', async () => {
    const { remote, code } = sessions.sh('echo $TERM', { terminal: true });
    assert.deepEqual([await code, remote.out], [0, 'xterm\r\n']);
    const without = sessions.sh('echo $TERM');
    assert.deepEqual([await without.code, without.remote.out], [0, '\n']);
  });

  await t.test('typing, echo, ^C and an interactive shell', async () => {
    const { remote, code } = sessions.begin(['sh'], { terminal: true, stdin: true });
    await until('a prompt', () => (/[#$] /.test(remote.out) ? true : undefined));
    remote.type('echo $((6*7))\n');
    await until('its answer', () => (/\r\n42\r\n/.test(remote.out) ? true : undefined));
    remote.type('sleep 5003\n');
    await fixture.running(task, 'sleep 5003');
    remote.type('\x03');
    remote.type('exit 5\n');
    assert.equal(await code, 5);
    await onlyInit(fixture, task);
  });

  await t.test('a new size is told by SIGWINCH, the last one wins', async () => {
    const script = 'trap "stty size" WINCH; echo ready; while :; do sleep 0.05; done';
    const { remote, code, vanish } = sessions.sh(script, { terminal: true });
    await until('the trap', () => (/ready/.test(remote.out) ? true : undefined));
    for (let width = 81; width <= 100; width++) remote.resize(width, 25);
    await until('the last size', () => (/25 100\r\n$/.test(remote.out) ? true : undefined));
    vanish();
    await assert.rejects(code);
  });

  await t.test('a client that vanishes hangs up', async () => {
    const script = 'trap exit HUP; echo ready; while :; do sleep 0.05; done';
    const { remote, code, vanish } = sessions.sh(script, { terminal: true, stdin: true });
    await until('the trap', () => (/ready/.test(remote.out) ? true : undefined));
    const vanishedAtMs = performance.now();
    vanish();
    await assert.rejects(code, (error) => isKind(error, 'Canceled'));
    await onlyInit(fixture, task);
    assert.ok(performance.now() - vanishedAtMs < 1_900, 'it ended by itself, before it would be killed');
  });

  await t.test('what does not care is killed with all that it started', async () => {
    const { remote, code, vanish } = sessions.sh('trap "" HUP; echo ready; sleep 5004 & sleep 5005', {
      terminal: true,
    });
    await until('the trap', () => (/ready/.test(remote.out) ? true : undefined));
    await fixture.running(task, 'sleep 5005');
    vanish();
    await assert.rejects(code, (error) => isKind(error, 'Canceled'));
    await onlyInit(fixture, task);
  });

  await t.test('much is shown whole, and a slow client holds it up', async () => {
    const { remote, code } = sessions.sh('stty -opost; head -c 3000000 /dev/zero; echo done', {
      terminal: true,
      stalled: true,
    });
    await until('the first bytes', () => (remote.receivedBytes > 0 ? true : undefined));
    await new Promise((next) => setTimeout(next, 300));
    assert.ok(remote.receivedBytes < 1_000_000, `${remote.receivedBytes} bytes were read ahead`);
    remote.takeOn();
    assert.equal(await code, 0);
    assert.equal(remote.receivedBytes, 3_000_000 + 'done\n'.length);
  });

  await t.test('the end of the container ends it', async () => {
    const terminal = sessions.sh('sleep 5006', { terminal: true, stdin: true });
    const piped = sessions.sh('sleep 5007', { stdin: true });
    await fixture.running(task, 'sleep 5006');
    await fixture.running(task, 'sleep 5007');
    await fixture.service.signal(op, task, 9);
    assert.deepEqual([await terminal.code, await piped.code], [137, 137]);
    assert.equal((await fixture.exit(task.id)).kind, 'exited');
    await assert.rejects(sessions.sh('true').code, (error) => isKind(error, 'FailedPrecondition'));
  });
});
