import assert from 'node:assert/strict';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { examplePod } from '../../kube/api/fake-api.ts';
import { unavailable } from '../../lib/errors.ts';
import { openFakeCli, type FakeCli } from '../fake-cli.ts';
import { FakeTerminal } from '../terminal/fake-terminal.ts';
import { FakeStreams, type FakeSession } from './fake-session.ts';

const SIZE = { width: 80, height: 24 };

interface Room {
  readonly cli: FakeCli;
  readonly streams: FakeStreams;
  readonly terminal: FakeTerminal;
}

/** A command line on a terminal of a size, or on pipes, and pods of one container `main` each: `web` without a terminal, `shell` with one. */
async function room(play: (session: FakeSession) => void, size?: typeof SIZE): Promise<Room> {
  const terminal = new FakeTerminal(size);
  const streams = new FakeStreams(play);
  const cli = await openFakeCli({}, { streams }, '/', () => terminal);
  await cli.pod('web');
  const main = { name: 'main', image: 'busybox:1', stdin: true, tty: true };
  await cli.api.kube.create(cli.api.op, 'pods', examplePod('shell', { containers: [main] }));
  return { cli, streams, terminal };
}

/** All that came out of the terminal's stdout and stderr. */
async function shown({ terminal }: Room): Promise<[string, string]> {
  terminal.stdout.end();
  terminal.stderr.end();
  return await Promise.all([text(terminal.stdout), text(terminal.stderr)]);
}

test('exec: what the command writes comes out, and its exit code is passed on with kubectl’s words', async () => {
  const there = await room((session) => {
    session.stdout.write('out\n');
    session.stderr.write('err\n');
    session.end(126);
  });
  const outcome = await there.cli.run(['exec', 'pod/web', '--', 'sh', '-c', 'x']);
  assert.deepEqual(outcome, { code: 126, out: '', err: 'command terminated with exit code 126\n' });
  assert.deepEqual(await shown(there), ['out\n', 'err\n']);
  assert.deepEqual(there.streams.asked, [
    {
      ...{ kind: 'exec', namespace: 'default', name: 'web', container: 'main', command: ['sh', '-c', 'x'] },
      ...{ stdin: false, stdout: true, stderr: true, tty: false },
    },
  ]);
  assert.ok(there.streams.session.closed);
  assert.deepEqual(there.terminal.modes, []);
});

test('exec -i: stdin goes to the command, its end too', async () => {
  const there = await room((session) => {
    void text(session.stdin).then((typed) => {
      session.stdout.write(typed.toUpperCase());
      session.end(0);
    });
  });
  there.terminal.stdin.end('all that is typed');
  assert.equal((await there.cli.run(['exec', '-i', 'web', '--', 'tr'])).code, 0);
  assert.deepEqual(await shown(there), ['ALL THAT IS TYPED', '']);
});

test('exec -it: the terminal is raw while the command has it, and its size and each change of it are told', async () => {
  const there = await room(() => {
    const { streams, terminal } = there;
    assert.deepEqual(terminal.modes, ['raw']);
    terminal.resizeTo({ width: 100, height: 30 });
    assert.deepEqual(streams.session.sizes, [SIZE, { width: 100, height: 30 }]);
    streams.session.end(0);
  }, SIZE);
  assert.deepEqual(await there.cli.run(['exec', '-it', 'web', '--', 'sh']), { code: 0, out: '', err: '' });
  assert.deepEqual([there.terminal.modes, there.terminal.listeners], [['raw', 'restored'], 0]);
  const [{ stdin, stdout, stderr, tty } = {}] = there.streams.asked;
  assert.deepEqual([stdin, stdout, stderr, tty], [true, true, false, true]);
});

test('the terminal is restored on every way out', async () => {
  const broken = await room((session) => session.end(unavailable('the connection broke off')), SIZE);
  assert.deepEqual(await broken.cli.run(['exec', '-it', 'web', '--', 'sh']), {
    ...{ code: 1, out: '', err: 'error: the connection broke off\n' },
  });
  assert.deepEqual(broken.terminal.modes, ['raw', 'restored']);
  assert.ok(broken.streams.session.closed);
  const failing = await room((session) => {
    failing.terminal.stdout.destroy(new Error('EPIPE'));
    session.stdout.write('x');
  }, SIZE);
  assert.equal((await failing.cli.run(['exec', '-it', 'web', '--', 'sh'])).code, 1);
  assert.deepEqual(failing.terminal.modes, ['raw', 'restored']);
});

test('-t where there is no terminal: the command gets none, and it is said unless -q', async () => {
  for (const [words, err] of [
    [['exec', '-i', '-t'], 'Unable to use a TTY - input is not a terminal or the right kind of file\n'],
    [['exec', '-q', '-i', '-t'], ''],
    // Without -i there is nobody to type.
    [['exec', '-t'], ''],
  ] as const) {
    const there = await room((session) => session.end(0));
    assert.equal((await there.cli.run([...words, 'web', '--', 'sh'])).err, err);
    assert.deepEqual([there.streams.asked[0]?.tty, there.streams.asked[0]?.stderr], [false, true]);
    assert.deepEqual(there.terminal.modes, []);
  }
});

test('exec: what cannot be is said before anything is asked of the container', async () => {
  const { cli, streams } = await room(() => assert.fail('nothing runs'));
  const status = { phase: 'Succeeded' };
  const pod = await cli.api.kube.get(cli.api.op, 'pods', { namespace: 'default', name: 'web' });
  await cli.api.kube.replaceStatus(cli.api.op, 'pods', { ...pod, status });
  const cases: readonly (readonly [words: string[], err: RegExp])[] = [
    [['exec', 'shell'], /^error: you must specify at least one command for the container\n$/],
    [['exec', 'nobody', '--', 'sh'], /^Error from server \(NotFound\): pods "nobody" not found\n$/],
    [
      ['exec', 'web', '--', 'sh'],
      /^error: cannot exec into a container in a completed pod; current phase is Succeeded\n$/,
    ],
    [['attach', 'web'], /^error: cannot attach a container in a completed pod; current phase is Succeeded\n$/],
    [['attach', 'shell', '-c', 'no'], /^error: cannot attach to the container: container no not found in pod shell\n$/],
  ];
  for (const [words, err] of cases) {
    const outcome = await cli.run(words);
    assert.equal(outcome.code, 1, words.join(' '));
    assert.match(outcome.err, err);
  }
  assert.deepEqual(streams.asked, []);
});

test('of several containers the default one is taken and told of, unless -q', async () => {
  const there = await room((session) => session.end(0));
  const containers = ['a', 'b'].map((name) => ({ name, image: 'i' }));
  await there.cli.api.kube.create(there.cli.api.op, 'pods', examplePod('two', { containers }));
  const said = 'Defaulted container "a" out of: a, b\n';
  assert.equal((await there.cli.run(['exec', 'two', '--', 'x'])).err, said);
  assert.equal((await there.cli.run(['exec', '-q', 'two', '--', 'x'])).err, '');
  assert.equal((await there.cli.run(['exec', 'two', '-c', 'b', '--', 'x'])).err, '');
  assert.deepEqual(
    there.streams.asked.map(({ container }) => container),
    ['a', 'a', 'b'],
  );
});

test('attach -it: the window changes once, so that the screen is drawn anew; at its end the way back is told', async () => {
  const there = await room(() => {
    const { streams, cli } = there;
    const grown = { width: 81, height: 25 };
    assert.deepEqual(streams.session.sizes, [grown]);
    void cli.api.clock.advance(100).then(() => {
      assert.deepEqual(streams.session.sizes, [grown, SIZE]);
      streams.session.end(0);
    });
  }, SIZE);
  assert.deepEqual(await there.cli.run(['attach', 'shell', '-it']), {
    code: 0,
    out: "Session ended, resume using 'gantry attach shell -c main -i -t' command when the pod is running\n",
    err: "If you don't see a command prompt, try pressing enter.\n",
  });
  const { kind, stdin, stderr, tty } = there.streams.asked[0] ?? {};
  assert.deepEqual([kind, stdin, stderr, tty], ['attach', true, false, true]);
});

test('attach: a terminal is what the container has, not what is asked for', async () => {
  const there = await room((session) => session.end(0), SIZE);
  const withoutTty = await there.cli.run(['attach', 'web', '-it']);
  assert.match(withoutTty.err, /^error: Unable to use a TTY - container main did not allocate one\n/);
  assert.equal((await there.cli.run(['attach', '-q', 'shell', '-i'])).err, '');
  await there.cli.run(['attach', 'shell']);
  assert.deepEqual(
    there.streams.asked.map(({ stdin, stderr, tty }) => ({ stdin, stderr, tty })),
    [
      { stdin: true, stderr: true, tty: false },
      { stdin: true, stderr: false, tty: true },
      { stdin: false, stderr: false, tty: false },
    ],
  );
});

test('Ctrl-C without a terminal of the command ends it', async () => {
  const terminal = new FakeTerminal();
  const streams = new FakeStreams((session) => session.stdout.write('runs\n'));
  const cli = await openFakeCli({}, { streams }, '/', () => terminal);
  await cli.pod('web');
  const running = cli.interruptible(['exec', 'web', '--', 'yes']);
  await once(terminal.stdout, 'readable');
  running.interrupt();
  assert.equal((await running.ended).code, 1);
  assert.ok(streams.session.closed);
});
