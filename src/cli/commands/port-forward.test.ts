import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { duplexPair, PassThrough, type Duplex } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { canceled } from '../../lib/errors.ts';
import type { PodStreams, PortForwardSession } from '../../kube/streams/pod-streams.ts';
import { openFakeCli, type FakeCli } from '../fake-cli.ts';

/** The pod's end of a port-forward. */
class FarEnd implements PortForwardSession {
  readonly opened: { readonly port: number; readonly far: Duplex; fail(why: string): void }[] = [];
  closed = false;
  readonly #over = new AbortController();
  readonly #onOpen: (far: Duplex, port: number) => void;

  constructor(onOpen: (far: Duplex, port: number) => void) {
    this.#onOpen = onOpen;
  }

  get over(): AbortSignal {
    return this.#over.signal;
  }

  open(port: number): { data: Duplex; failure: Promise<string | undefined> } {
    const [data, far] = duplexPair({ allowHalfOpen: true });
    const failed = Promise.withResolvers<string | undefined>();
    far.on('error', () => undefined).once('close', () => failed.resolve(undefined));
    this.opened.push({ port, far, fail: failed.resolve });
    this.#onOpen(far, port);
    return { data, failure: failed.promise };
  }

  close(): void {
    this.closed = true;
  }

  lose(): void {
    this.#over.abort(canceled('gone'));
  }
}

interface Room {
  readonly cli: FakeCli;
  readonly far: FarEnd;
  /** Runs it until `use` has done with the local ports, in their order. */
  readonly forward: (
    words: readonly string[],
    use: (ports: readonly number[]) => Promise<void>,
  ) => Promise<{ out: string; err: string; code: number }>;
}

async function room(onOpen: (far: Duplex, port: number) => void = () => undefined): Promise<Room> {
  const far = new FarEnd(onOpen);
  const streams: PodStreams = { run: () => assert.fail('no command'), forward: () => Promise.resolve(far) };
  const cli = await openFakeCli({}, { streams });
  await cli.pod('web');
  await setPhase(cli, 'Running');
  const forward: Room['forward'] = async (words, use) => {
    let used: Promise<void> | undefined;
    return await cli.follow(['port-forward', ...words], (out, interrupt) => {
      const ports = [...out.matchAll(/^Forwarding from 127\.0\.0\.1:(\d+) /gm)].map(([, port]) => Number(port));
      if (!out.includes('[::1]')) return;
      used ??= use(ports).finally(interrupt);
    });
  };
  return { cli, far, forward };
}

async function setPhase(cli: FakeCli, phase: string): Promise<void> {
  const pod = await cli.api.kube.get(cli.api.op, 'pods', { namespace: 'default', name: 'web' });
  await cli.api.kube.replaceStatus(cli.api.op, 'pods', { ...pod, status: { phase } });
}

/** As the agent does it when nothing of the pod is left. */
async function remove({ api: { kube, op } }: FakeCli): Promise<void> {
  const key = { namespace: 'default', name: 'web' };
  const { metadata } = await kube.delete(op, 'pods', key);
  await kube.delete(op, 'pods', key, { gracePeriodSeconds: 0, preconditions: { uid: metadata.uid } });
}

const echo = (far: Duplex): void => void far.pipe(far);

test('kubectl’s lines; connections side by side on both addresses; Ctrl-C ends it without a complaint', async () => {
  const { forward, far } = await room(echo);
  const { out, err, code } = await forward(['pod/web', ':80'], async ([port = 0]) => {
    const answers = ['127.0.0.1', '::1'].map(async (host) => {
      const socket = connect({ host, port, allowHalfOpen: true });
      socket.end(`hello ${host}`);
      return await text(socket);
    });
    assert.deepEqual(await Promise.all(answers), ['hello 127.0.0.1', 'hello ::1']);
  });
  const local = /127\.0\.0\.1:(\d+)/.exec(out)?.[1];
  assert.deepEqual(out.trimEnd().split('\n'), [
    `Forwarding from 127.0.0.1:${local} -> 80`,
    `Forwarding from [::1]:${local} -> 80`,
    `Handling connection for ${local}`,
    `Handling connection for ${local}`,
  ]);
  assert.deepEqual([err, code, far.closed], ['', 0, true]);
  assert.deepEqual(
    far.opened.map(({ port }) => port),
    [80, 80],
  );
});

test('each half of a connection ends on its own, and what breaks off on one side breaks off on the other', async () => {
  const { forward, far } = await room();
  await forward(['web', ':80'], async ([port = 0]) => {
    const half = connect({ host: '127.0.0.1', port, allowHalfOpen: true });
    half.end('asked');
    while (far.opened.length < 1) await new Promise(setImmediate);
    const first = far.opened[0]?.far ?? new PassThrough();
    assert.equal(await text(first.iterator({ destroyOnReturn: false })), 'asked');
    first.end('answered');
    assert.equal(await text(half), 'answered');
    const broken = connect({ host: '127.0.0.1', port });
    broken.on('error', () => undefined);
    while (far.opened.length < 2) await new Promise(setImmediate);
    const closed = once(broken.resume(), 'close');
    far.opened[1]?.far.destroy();
    await closed;
  });
});

test('a connection that fails is told of, and harms no other', async () => {
  const { forward, far } = await room(echo);
  const { out, err, code } = await forward(['web', ':80'], async ([port = 0]) => {
    const good = connect({ host: '127.0.0.1', port, allowHalfOpen: true });
    while (far.opened.length < 1) await new Promise(setImmediate);
    const bad = connect({ host: '127.0.0.1', port });
    while (far.opened.length < 2) await new Promise(setImmediate);
    far.opened[1]?.fail('connection refused');
    await once(bad.resume(), 'close');
    good.end('still');
    assert.equal(await text(good), 'still');
  });
  const local = /127\.0\.0\.1:(\d+)/.exec(out)?.[1];
  assert.deepEqual([err, code], [`an error occurred forwarding ${local} -> 80: connection refused\n`, 0]);
});

test('a lost connection, and the end of the pod, end it with an error', async () => {
  const lost = await room();
  assert.deepEqual(
    await lost.cli.follow(['port-forward', 'web', ':80'], () => lost.far.lose()).then(({ code, err }) => [code, err]),
    [1, 'error: lost connection to pod\n'],
  );
  const gone = await room();
  let asked = false;
  const { code, err } = await gone.cli.follow(['port-forward', 'web', ':80'], () => {
    if (asked) return;
    asked = true;
    void remove(gone.cli);
  });
  assert.deepEqual([code, err], [1, 'error: lost connection to pod: web is gone\n']);
  const ended = await room();
  const completed = await ended.cli.follow(['port-forward', 'web', ':80'], () => void setPhase(ended.cli, 'Succeeded'));
  assert.equal(completed.err, 'error: lost connection to pod: web has ended; current phase is Succeeded\n');
});

test('ports that are taken: complained of, and an error if none is left', async () => {
  const taken = createServer();
  await once(taken.listen(0, '127.0.0.1'), 'listening');
  const { port } = taken.address() as AddressInfo;
  const { cli } = await room();
  const words = ['--address', '127.0.0.1'];
  const none = await cli.run(['port-forward', 'web', `${port}:80`, ...words]);
  assert.equal(none.code, 1);
  assert.match(
    none.err,
    /^Unable to listen on port \d+: .*EADDRINUSE.*\nerror: unable to listen on any of the requested ports\n$/,
  );
  // The other address of localhost is enough.
  const half = await cli.follow(['port-forward', 'web', `${port}:80`], (_out, interrupt) => interrupt());
  assert.deepEqual([half.code, half.out, half.err], [0, `Forwarding from [::1]:${port} -> 80\n`, '']);
  taken.close();
});

test('what cannot be is said before anything is opened', async () => {
  const { cli, far } = await room();
  for (const [words, err] of [
    [['web', '80', '--address', 'example.org'], 'error: example.org is not a valid IP\n'],
    [['web', '1:2:3'], "error: invalid port format '1:2:3'\n"],
    [['nobody', '80'], 'Error from server (NotFound): pods "nobody" not found\n'],
  ] as const) {
    assert.deepEqual(await cli.run(['port-forward', ...words]), { code: 1, out: '', err });
  }
  await setPhase(cli, 'Pending');
  assert.deepEqual(await cli.run(['port-forward', 'web', '80']), {
    ...{ code: 1, out: '', err: 'error: unable to forward port because pod is not running. Current status=Pending\n' },
  });
  assert.deepEqual(far.opened, []);
});
