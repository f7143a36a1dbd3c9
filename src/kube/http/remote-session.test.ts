import assert from 'node:assert/strict';
import { once } from 'node:events';
import http, { type IncomingMessage } from 'node:http';
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { WebSocketServer, type WebSocket } from 'ws';
import { canceled } from '../../lib/errors.ts';
import { silentLog } from '../../lib/log.ts';
import { apiError, statusOf } from '../status-error.ts';
import type { PodCommandRequest, RemoteSession } from '../streams/pod-streams.ts';
import { connectApi } from './connect.ts';

const op = { signal: new AbortController().signal, log: silentLog };
const STREAMS = { stdin: true, stdout: true, stderr: true, tty: false };
const EXEC: PodCommandRequest = {
  kind: 'exec',
  namespace: 'default',
  name: 'web',
  command: ['sh', '-c', ''],
  ...STREAMS,
};

const SUCCESS = { metadata: {}, status: 'Success' };
const failure = (code: string): object => ({
  metadata: {},
  status: 'Failure',
  reason: 'NonZeroExitCode',
  message: `command terminated with non-zero exit code: exit status ${code}`,
  details: { causes: [{ reason: 'ExitCode', message: code }] },
});

describe('an exec or attach over a WebSocket', () => {
  let folder: string;
  let server: http.Server;
  let sockets: WebSocketServer;
  let address: string;
  let refusal: Error | undefined;
  const asked: string[] = [];

  before(async () => {
    folder = await mkdtemp(path.join(os.tmpdir(), 'gantry-session-'));
    server = http.createServer();
    sockets = new WebSocketServer({ noServer: true, handleProtocols: (offered) => [...offered][0] ?? false });
    server.on('upgrade', (request: IncomingMessage, socket, head) => {
      asked.push(request.url ?? '');
      if (refusal === undefined) {
        sockets.handleUpgrade(request, socket, head, (webSocket) => sockets.emit('connection', webSocket, request));
        return;
      }
      const status = JSON.stringify(statusOf(refusal));
      socket.end(`HTTP/1.1 404 Not Found\r\nContent-Length: ${status.length}\r\nConnection: close\r\n\r\n${status}`);
    });
    const socketPath = path.join(folder, 's');
    address = `unix://${socketPath}`;
    await once(server.listen(socketPath), 'listening');
  });
  after(async () => {
    for (const client of sockets.clients) client.terminate();
    sockets.close();
    server.close();
    await rm(folder, { recursive: true });
  });

  /** Both ends of a session. */
  async function begin(
    request: PodCommandRequest = EXEC,
    ownOp = op,
  ): Promise<{ session: RemoteSession; remote: WebSocket; say: (channel: number, what: string | object) => void }> {
    const arrived = once(sockets, 'connection') as Promise<[WebSocket]>;
    const { streams } = await connectApi(address);
    const session = await streams.run(ownOp, request);
    const [remote] = await arrived;
    const say = (channel: number, what: string | object): void =>
      remote.send(
        Buffer.concat([Buffer.of(channel), Buffer.from(typeof what === 'string' ? what : JSON.stringify(what))]),
      );
    return { session, remote, say };
  }

  test('asks as kubectl does, and each stream has its channel', async () => {
    const { session, remote, say } = await begin();
    assert.equal(remote.protocol, 'v5.channel.k8s.io');
    assert.equal(
      asked.at(-1),
      '/api/v1/namespaces/default/pods/web/exec?command=sh&command=-c&command=&stdin=true&stdout=true&stderr=true&tty=false',
    );
    const heard: string[] = [];
    const closed = new Promise<void>((resolve) => {
      remote.on('message', (data: Buffer) => {
        heard.push(`${data[0]}:${data[0] === 255 ? data[1] : String(data.subarray(1))}`);
        if (data[0] === 255) resolve();
      });
    });
    session.resize({ width: 80, height: 24 });
    session.stdin.write('typed');
    session.stdin.end();
    await closed;
    say(1, '');
    say(1, 'out');
    say(2, 'err');
    say(1, 'put');
    say(3, SUCCESS);
    assert.deepEqual(await Promise.all([text(session.stdout), text(session.stderr), session.ended]), [
      'output',
      'err',
      0,
    ]);
    assert.deepEqual(heard, ['4:{"Width":80,"Height":24}', '0:typed', '255:0']);
    session.close();
    await once(remote, 'close');
  });

  test('the exit code, or what was said in its place', async () => {
    for (const [outcome, expected] of [
      [failure('127'), 127],
      [failure('143'), 143],
      [{ ...failure('x') }, /exit status x/],
      [{ ...statusOf(apiError('InternalError', 'no such program')), kind: undefined }, /^no such program$/],
      ['not json', /no Status: not json/],
    ] as const) {
      const { session, say } = await begin();
      say(3, outcome);
      if (typeof expected === 'number') assert.equal(await session.ended, expected);
      else await assert.rejects(session.ended, { message: expected });
      session.close();
    }
  });

  test('a session that breaks off has no exit code; the end of an attach needs none', async () => {
    const broken = await begin();
    broken.say(1, 'half');
    broken.remote.terminate();
    await assert.rejects(broken.session.ended, {
      kind: 'Unavailable',
      message: /broke off before the end of the command/,
    });
    assert.equal(await text(broken.session.stdout), 'half');
    const quiet = await begin();
    quiet.remote.close(1000);
    await assert.rejects(quiet.session.ended, { kind: 'Unavailable' });
    const attached = await begin({ kind: 'attach', namespace: 'default', name: 'web', ...STREAMS });
    attached.remote.close(1000);
    assert.equal(await attached.session.ended, 0);
  });

  test('who does not read holds the other side up, and gets everything when he does', async () => {
    const { session, remote, say } = await begin();
    const [chunk, count] = ['x'.repeat(1 << 20), 48];
    for (let index = 0; index < count; index++) say(1, chunk);
    say(3, SUCCESS);
    let left: number;
    do {
      left = remote.bufferedAmount;
      await new Promise((resolve) => setTimeout(resolve, 100));
    } while (remote.bufferedAmount < left);
    assert.ok(left > (count / 2) * chunk.length, `${left} bytes wait on the other side`);
    let received = 0;
    for await (const part of session.stdout as AsyncIterable<Buffer>) received += part.byteLength;
    assert.equal(received, count * chunk.length);
    assert.equal(await session.ended, 0);
    session.close();
  });

  test('a stream that nobody wants any more does not hold the others up', async () => {
    const { session, say } = await begin();
    session.stderr.destroy();
    for (let index = 0; index < 8; index++) say(2, 'x'.repeat(1 << 20));
    say(1, 'through');
    say(3, SUCCESS);
    assert.deepEqual([await text(session.stdout), await session.ended], ['through', 0]);
    session.close();
  });

  test('what is written after the end is dropped, not an error', async () => {
    const { session, remote, say } = await begin();
    say(3, SUCCESS);
    assert.equal(await session.ended, 0);
    remote.close(1000);
    await once(remote, 'close');
    session.stdin.write('late');
    session.stdin.end();
    await once(session.stdin, 'finish');
  });

  test('a refusal is the error of its Status', async () => {
    refusal = apiError('NotFound', 'pods "web" not found');
    await assert.rejects(begin(), { kind: 'NotFound', message: 'pods "web" not found' });
    refusal = undefined;
  });

  test('nobody there', async () => {
    const { streams } = await connectApi(`unix://${folder}/nobody`);
    await assert.rejects(streams.run(op, EXEC), {
      kind: 'Unavailable',
      message: /nobody answers at .*: is gantryd running\?/,
    });
  });

  test('it ends with the op', async () => {
    const aborting = new AbortController();
    const { session, remote } = await begin(EXEC, { ...op, signal: aborting.signal });
    const gone = once(remote, 'close');
    aborting.abort(canceled('interrupted'));
    await assert.rejects(session.ended, { kind: 'Canceled', message: 'interrupted' });
    await gone;
    await assert.rejects(begin(EXEC, { ...op, signal: aborting.signal }), { message: 'interrupted' });
  });
});
