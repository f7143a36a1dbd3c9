import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import http from 'node:http';
import { connect, type Socket } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { notFound } from '../../lib/errors.ts';
import { silentLog } from '../../lib/log.ts';
import type { Status } from '../objects.ts';
import type { PodStreamRequest } from '../streams/pod-streams.ts';
import { openFakeApi, type FakeApi } from './fake-api.ts';
import { fakeStreamingServer, type FakeStreamingServer } from './fake-streaming-server.ts';
import { serveApi, type ApiServer } from './server.ts';

/** Everything that a socket has received so far, from the first call on. */
const texts = new WeakMap<Socket, { text: string }>();

async function until(socket: Socket, wanted: RegExp): Promise<string> {
  let received = texts.get(socket);
  if (received === undefined) {
    const fresh = { text: '' };
    texts.set(socket, fresh);
    socket.on('data', (chunk: Buffer) => (fresh.text += String(chunk)));
    received = fresh;
  }
  while (!wanted.test(received.text)) await once(socket, 'data');
  return received.text;
}

const EXEC = '/api/v1/namespaces/default/pods/web/exec?command=date&stdout=true';

describe('a stream through the API', () => {
  let folder: string;
  let socketPath: string;
  let api: FakeApi;
  let server: ApiServer;
  let upstream: FakeStreamingServer;
  let tcp: URL;
  const asked: PodStreamRequest[] = [];
  let answer: () => string;

  before(async () => {
    folder = await mkdtemp(path.join(os.tmpdir(), 'gantry-streams-'));
    socketPath = path.join(folder, 'api.sock');
    api = await openFakeApi();
    upstream = await fakeStreamingServer(['Upgrade: SPDY/3.1', 'X-Stream-Protocol-Version: v4.channel.k8s.io']);
    answer = () => upstream.url;
    server = await serve(`unix://${socketPath}`, 'http://127.0.0.1:0');
    tcp = new URL(server.addresses[1] ?? '');
  });
  after(async () => {
    await server.close();
    await upstream[Symbol.asyncDispose]();
    api.close();
    await rm(folder, { recursive: true });
  });

  async function serve(...listen: readonly string[]): Promise<ApiServer> {
    const { registry, clock } = api;
    const streamUrl = (_op: unknown, request: PodStreamRequest): Promise<string> => {
      asked.push(request);
      return Promise.resolve().then(answer);
    };
    return await serveApi({ registry, clock, log: silentLog, listen, version: '0', streams: { streamUrl } });
  }

  /** Sends the head of a request and what follows at once. */
  function begin(target: string, headers: readonly string[], behind = '', where: string | URL = socketPath): Socket {
    const socket =
      typeof where === 'string'
        ? connect({ path: where, allowHalfOpen: true })
        : connect({ host: where.hostname, port: Number(where.port), allowHalfOpen: true });
    socket.on('error', () => undefined);
    socket.write(`${target} HTTP/1.1\r\nHost: localhost\r\n${headers.join('\r\n')}\r\n\r\n${behind}`);
    return socket;
  }

  const UPGRADE = ['Connection: Upgrade', 'Upgrade: SPDY/3.1'];

  async function refused(target: string, headers: readonly string[], where?: URL): Promise<Status> {
    const socket = begin(target, headers, '', where);
    let text = '';
    for await (const chunk of socket as AsyncIterable<Buffer>) text += String(chunk);
    const [head = '', body = ''] = text.split('\r\n\r\n');
    const status = JSON.parse(body) as Status;
    assert.match(head, new RegExp(`^HTTP/1\\.1 ${status.code} `));
    return status;
  }

  test('the request is handed on with its headers, the answer comes back as it is, and then every byte both ways', async () => {
    const versions = ['X-Stream-Protocol-Version: v4.channel.k8s.io', 'X-Stream-Protocol-Version: v3.channel.k8s.io'];
    const secret = 'Authorization: Bearer secret';
    const headers = [...UPGRADE, ...versions, secret, 'Content-Length: 0'];
    const client = begin(`POST ${EXEC}`, headers, 'early');
    const { request, socket, head } = await upstream.next();
    assert.equal(request.method, 'POST');
    assert.equal(`http://${request.headers.host}${request.url}`, upstream.url);
    assert.equal(request.headers['x-stream-protocol-version'], 'v4.channel.k8s.io, v3.channel.k8s.io');
    assert.equal(request.headers.authorization, undefined);
    assert.deepEqual(asked.at(-1), {
      ...{ kind: 'exec', namespace: 'default', name: 'web', command: ['date'] },
      ...{ stdin: false, stdout: true, stderr: true, tty: false },
    });
    assert.equal(String(head) === '' ? await until(socket, /early/) : String(head), 'early');
    const said = await until(client, /\r\n\r\n/);
    assert.match(said, /^HTTP\/1\.1 101 Switching Protocols\r\n/);
    assert.match(said, /\r\nX-Stream-Protocol-Version: v4\.channel\.k8s\.io\r\n/);
    socket.write('from the pod');
    await until(client, /from the pod/);
    client.write('to the pod');
    await until(socket, /to the pod/);
    client.destroy();
    await once(socket, 'end');
    socket.destroy();
  });

  test('the end of one half leaves the other open, and the end of both closes both', async () => {
    const client = begin(`GET ${EXEC}`, UPGRADE);
    const { socket } = await upstream.next();
    await until(client, /\r\n\r\n/);
    const got = until(client, /afterwards/);
    const closed = Promise.all([once(client, 'close'), once(socket, 'close')]);
    const ended = once(socket, 'end');
    client.end('all');
    await until(socket, /all/);
    await ended;
    socket.end('afterwards');
    await got;
    await closed;
  });

  test('what breaks off on the side of the runtime breaks off for the client', async () => {
    const client = begin(`GET ${EXEC}`, UPGRADE);
    const { socket } = await upstream.next();
    await until(client, /\r\n\r\n/);
    socket.resetAndDestroy();
    await once(client, 'end');
    client.destroy();
  });

  test('a client that does not read holds the runtime up, and gets everything when it does', async () => {
    const client = begin(`GET ${EXEC}`, UPGRADE);
    const { socket } = await upstream.next();
    await until(client, /\r\n\r\n/);
    client.pause();
    const [chunk, count] = [Buffer.alloc(1 << 20, 'x'), 64];
    for (let index = 0; index < count; index++) socket.write(chunk);
    // What the kernel and the proxy may hold is far less: the rest stays where it came from.
    let left: number;
    do {
      left = socket.writableLength;
      await new Promise((resolve) => setTimeout(resolve, 100));
    } while (socket.writableLength < left);
    assert.ok(left > (count / 2) * chunk.byteLength, `${left} bytes wait in the runtime`);
    socket.end();
    let received = 0;
    for await (const part of client as AsyncIterable<Buffer>) received += part.byteLength;
    assert.equal(received, count * chunk.byteLength);
    client.destroy();
  });

  test('a refusal of the runtime is told as a Status', async () => {
    answer = () => `${new URL(upstream.url).origin}/exec/used`;
    const status = await refused(`POST ${EXEC}`, UPGRADE);
    assert.deepEqual(
      [status.kind, status.reason, status.message],
      ['Status', 'BadRequest', 'unable to upgrade connection: unknown or used token'],
    );
    answer = () => 'http://127.0.0.1:1/exec/x';
    const unreachable = await refused(`POST ${EXEC}`, UPGRADE);
    assert.equal(unreachable.code, 500);
    assert.match(unreachable.message ?? '', /^the runtime's streaming server at 127\.0\.0\.1:1 cannot be reached: /);
    answer = () => upstream.url;
  });

  test('what is wrong with the request is told before the runtime is asked for anything', async () => {
    answer = () => {
      throw notFound('pods "web" not found');
    };
    const missing = await refused(`GET ${EXEC}`, UPGRADE);
    assert.deepEqual([missing.code, missing.message], [404, 'pods "web" not found']);
    answer = () => upstream.url;
    const before = asked.length;
    const plain = await refused(`POST ${EXEC}`, ['Connection: close', 'Content-Length: 0']);
    assert.deepEqual([plain.code, plain.message], [400, 'Upgrade request required']);
    const nothing = await refused('GET /api/v1/namespaces/default/pods/web/exec', UPGRADE);
    assert.deepEqual([nothing.code, nothing.reason], [400, 'BadRequest']);
    const method = await refused(`PUT ${EXEC}`, UPGRADE);
    assert.equal(method.code, 405);
    const page = await refused(`GET ${EXEC}`, [...UPGRADE, 'Origin: http://evil.example'], tcp);
    assert.equal(page.code, 403);
    assert.equal(asked.length, before);
  });

  test('elsewhere the wish for another protocol is passed over', async () => {
    const [response] = (await once(
      http.get({ socketPath, path: '/healthz', headers: { connection: 'Upgrade', upgrade: 'h2c' } }),
      'response',
    )) as [http.IncomingMessage];
    assert.equal(response.statusCode, 200);
    response.resume();
  });

  test('streams end with the API', async () => {
    const own = path.join(folder, 'own.sock');
    const passing = await serve(`unix://${own}`);
    const client = begin(`GET ${EXEC}`, UPGRADE, '', own);
    const { socket } = await upstream.next();
    await until(client, /\r\n\r\n/);
    await Promise.all([passing.close(), once(client, 'end'), once(socket.resume(), 'end')]);
    client.destroy();
    socket.destroy();
  });
});
