import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { ExecRequest, NamespaceMode, type PodSandboxConfig } from '../../../src/cri/gen/api.ts';
import { isKind, type ErrorKind } from '../../../src/lib/errors.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { eventually } from './daemon-process.ts';
import { ImageDaemon } from './image-daemon.ts';
import { container, op, pod } from './runtime-fixture.ts';
import { CommandClient, PortClient } from './stream-client.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
let daemon: ImageDaemon;
let leaks: LeakCheck;

before(async () => {
  if (skip !== false) return;
  daemon = await ImageDaemon.make();
  await daemon.endPod(await daemon.runPod(pod(daemon.root, 'first', { network: NamespaceMode.POD })));
  leaks = await LeakCheck.begin(daemon.root.leakRoots());
});

after(async () => {
  if (skip !== false) return;
  await daemon[Symbol.asyncDispose]();
});

interface InPod {
  readonly config: PodSandboxConfig;
  readonly sandboxId: string;
  /** Whose command reads line by line and says what it got. */
  readonly id: string;
}

async function withPod(name: string, network: NamespaceMode, work: (inPod: InPod) => Promise<void>): Promise<void> {
  const config = pod(daemon.root, name, { network });
  const sandboxId = await daemon.runPod(config);
  const script = 'while :; do while read line; do echo "got:$line"; done; sleep 1; done';
  const reader = container('a', ['sh', '-c', script], { stdin: true });
  try {
    await work({ config, sandboxId, id: await daemon.run(sandboxId, config, reader) });
  } finally {
    await daemon.endPod(sandboxId);
  }
  await leaks.assertNone();
}

async function exec(
  containerId: string,
  cmd: readonly string[],
  how: Partial<ExecRequest> = {},
): Promise<CommandClient> {
  const request = ExecRequest.fromPartial({ containerId, cmd: [...cmd], stdout: true, ...how });
  const { url } = (await daemon.runtime.exec?.(op, request)) ?? { url: '' };
  return await CommandClient.open(url, { stdin: request.stdin, tty: request.tty });
}

async function attach(containerId: string, stdin: boolean): Promise<CommandClient> {
  const request = { containerId, stdin, stdout: true, stderr: false, tty: false };
  const { url } = (await daemon.runtime.attach?.(op, request)) ?? { url: '' };
  return await CommandClient.open(url, { stdin });
}

async function forward(podSandboxId: string): Promise<PortClient> {
  const { url } = (await daemon.runtime.portForward?.(op, { podSandboxId, port: [] })) ?? { url: '' };
  return await PortClient.open(url);
}

const is =
  (kind: ErrorKind) =>
  (error: unknown): boolean =>
    isKind(error, kind);

/** Pids in the container, as it sees them, without the one that lists them. */
async function processesIn(id: string): Promise<string> {
  return await daemon.execSync(
    id,
    'sh',
    '-c',
    'ps -o args | grep -v -e "^ps" -e grep -e "sh -c ps" -e ARGS -e COMMAND',
  );
}

test('what cannot be streamed is refused before there is a URL', { skip }, async () => {
  await withPod('refusals', NamespaceMode.NODE, async ({ config, sandboxId, id }) => {
    await assert.rejects(exec(id, []), is('InvalidArgument'));
    await assert.rejects(exec(id, ['true'], { stdout: false }), is('InvalidArgument'));
    await assert.rejects(exec(id, ['true'], { tty: true, stderr: true }), is('InvalidArgument'));
    await assert.rejects(exec('no-such-container', ['true']), is('NotFound'));
    await assert.rejects(forward('no-such-sandbox'), is('NotFound'));
    const created = await daemon.create(sandboxId, config, container('b', ['sleep', '600']));
    await assert.rejects(exec(created, ['true']), is('FailedPrecondition'));
    await assert.rejects(attach(created, false), is('FailedPrecondition'));
    await daemon.runtime.stopPodSandbox(op, { podSandboxId: sandboxId });
    await assert.rejects(forward(sandboxId), is('FailedPrecondition'));
  });
});

test('exec: the code, a terminal, and enough of an id', { skip }, async () => {
  await withPod('exec', NamespaceMode.NODE, async ({ id }) => {
    const piped = await exec(id.slice(0, 13), ['sh', '-c', 'cat; exit 7'], { stdin: true });
    await piped.stdin?.write('typed');
    await piped.stdin?.end();
    assert.match(await piped.verdict(), /"reason":"ExitCode","message":"7"/);
    assert.equal(piped.out, 'typed');
    const terminal = await exec(id, ['sh', '-c', 'read line; stty size; echo "$line"'], { stdin: true, tty: true });
    await terminal.resizes?.write('{"Width":91,"Height":37}\n');
    await new Promise((next) => setTimeout(next, 200));
    await terminal.stdin?.write('word\n');
    assert.match(await terminal.verdict(), /"status":"Success"/);
    assert.equal(terminal.out, 'word\r\n37 91\r\nword\r\n');
  });
});

test('what is typed and not read yet holds up that client alone, and comes when it is read', { skip }, async () => {
  await withPod('typed', NamespaceMode.NODE, async ({ id }) => {
    const [lines, line] = [2_000, `${'x'.repeat(99)}\n`];
    const script = `touch /tmp/up; until [ -e /tmp/go ]; do sleep 0.2; done; head -c ${lines * line.length} | wc -l`;
    const terminal = await exec(id, ['sh', '-c', script], { stdin: true, tty: true });
    await eventually(
      () => daemon.execSync(id, 'ls', '/tmp'),
      (names) => names.includes('up'),
      'the command runs',
    );
    for (let typed = 0; typed < lines; typed++) void terminal.stdin?.write(line);
    await new Promise((next) => setTimeout(next, 500));
    await daemon.execSync(id, 'touch', '/tmp/go');
    assert.match(await terminal.verdict(), /"status":"Success"/);
    // The kernel drops what it cannot echo; nothing of the input is lost.
    assert.ok(terminal.out.endsWith(`${lines}\r\n`), terminal.out.slice(-200));
  });
});

test(
  'a new daemon attaches to what an earlier one has started; kill -9 leaves nothing of what was streamed',
  { skip },
  async () => {
    await withPod('killed', NamespaceMode.POD, async ({ sandboxId, id }) => {
      await daemon.execSync(id, 'sh', '-c', 'httpd -p 8080 -h /www');
      const clients = [
        await exec(id, ['sleep', '5000'], { stdin: true }),
        await exec(id, ['sh', '-c', 'trap "" HUP; sleep 5001'], { stdin: true, tty: true }),
        await attach(id, true),
      ];
      const port = await forward(sandboxId);
      await port.connect(8080);
      await clients[2]?.stdin?.write('one\n');
      await clients[2]?.shows(/got:one/);
      await eventually(
        () => processesIn(id),
        (text) => /sleep 5000/.test(text) && /sleep 5001/.test(text),
        'both commands',
      );
      await daemon.restart();
      assert.doesNotMatch(await processesIn(id), /sleep 500/);
      const again = await attach(id, true);
      await again.stdin?.write('two\n');
      await again.shows(/got:two/);
      assert.doesNotMatch(again.out, /one/, 'nothing is told twice');
      for (const client of [...clients, again]) client.vanish();
      port.vanish();
    });
  },
);

/** In the pod's network, but not one of its processes: sends back what it gets, until its client closes its half. */
async function echoServer(containerId: string): Promise<Disposable & { readonly port: number }> {
  const { info } = await daemon.runtime.containerStatus(op, { containerId, verbose: true });
  const { pid } = JSON.parse(info['info'] ?? '{}') as { pid: number };
  const script = `require('node:net').createServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', () => undefined).pipe(socket);
  }).listen(0, '127.0.0.1', function () { console.log(this.address().port) })`;
  const child = spawn('nsenter', ['-t', String(pid), '-n', process.execPath, '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [port] = (await once(child.stdout, 'data')) as [Buffer];
  return { port: Number(port.toString('utf8')), [Symbol.dispose]: () => void child.kill('SIGKILL') };
}

test('ports of a pod: both ways, both address families, many at once, a refusal of its own', { skip }, async () => {
  await withPod('ports', NamespaceMode.POD, async ({ sandboxId, id }) => {
    const serve = 'httpd -p 127.0.0.1:8080 -h /www; httpd -p [::1]:8081 -h /www';
    await daemon.execSync(id, 'sh', '-c', `echo it works >/www/index.html; ${serve}`);
    using server = await echoServer(id);
    const client = await forward(sandboxId);
    for (const port of [8080, 8081]) {
      const { answer, error } = await client.ask(port, 'GET / HTTP/1.0\r\n\r\n');
      assert.match(answer, /it works/, `port ${port}: ${error}`);
    }
    const refused = await client.ask(81, 'anybody?');
    assert.match(refused.error, /port 81 .*ECONNREFUSED/);
    const words = Array.from({ length: 50 }, (_, index) => `word ${index} `.repeat(2_000));
    const answers = await Promise.all(words.map((word) => client.ask(server.port, word)));
    for (const [index, { answer, error }] of answers.entries()) {
      assert.ok(answer === words[index], `connection ${index}: ${answer.length} bytes came back ${error}`);
    }
    client.vanish();
  });
});

test('a port of a pod on the network of the host', { skip }, async () => {
  await withPod('hostports', NamespaceMode.NODE, async ({ sandboxId, id }) => {
    const port = 20_000 + Math.floor(Math.random() * 10_000);
    await daemon.execSync(id, 'sh', '-c', `echo it works >/www/index.html; httpd -p 127.0.0.1:${port} -h /www`);
    const client = await forward(sandboxId);
    assert.match((await client.ask(port, 'GET / HTTP/1.0\r\n\r\n')).answer, /it works/);
    client.vanish();
  });
});

test('the end of a pod ends what is connected to it', { skip }, async () => {
  const ended: Promise<unknown>[] = [];
  await withPod('ends', NamespaceMode.POD, async ({ sandboxId, id }) => {
    using server = await echoServer(id);
    const port = await forward(sandboxId);
    const { data } = await port.connect(server.port);
    await data.write('hello');
    const attached = await attach(id, false);
    const running = await exec(id, ['sleep', '5000'], { tty: true });
    ended.push(data.ended.promise, attached.verdict(), running.verdict());
  });
  await Promise.all(ended);
});

async function held(pid: number): Promise<{ readonly fds: number; readonly threads: number }> {
  const [fds, threads] = await Promise.all([readdir(`/proc/${pid}/fd`), readdir(`/proc/${pid}/task`)]);
  return { fds: fds.length, threads: threads.length };
}

test('descriptors and threads are given back, also when clients vanish', { skip }, async () => {
  await withPod('counted', NamespaceMode.POD, async ({ sandboxId, id }) => {
    using server = await echoServer(id);
    const round = async (): Promise<void> => {
      const clients = await Promise.all([
        exec(id, ['sleep', '5000'], { stdin: true }),
        exec(id, ['sleep', '5000'], { stdin: true, tty: true }),
        exec(id, ['true']),
        attach(id, true),
        attach(id, false),
      ]);
      await clients[2].verdict();
      const port = await forward(sandboxId);
      assert.equal((await port.ask(server.port, 'hello')).answer, 'hello');
      await (await port.connect(server.port)).data.write('and nothing more');
      await port.connect(81);
      for (const client of clients) client.vanish();
      port.vanish();
      await eventually(
        () => processesIn(id),
        (text) => !/sleep 5000/.test(text),
        'the end of the commands',
      );
    };
    await round();
    const before = await held(daemon.pid);
    for (let turn = 0; turn < 4; turn++) await round();
    await eventually(
      () => held(daemon.pid),
      ({ fds, threads }) => fds <= before.fds && threads <= before.threads,
      `no more than ${before.fds} descriptors and ${before.threads} threads`,
    );
  });
});
