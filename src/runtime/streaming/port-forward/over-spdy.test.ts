import assert from 'node:assert/strict';
import { once } from 'node:events';
import { afterEach, test } from 'node:test';
import { pipeline } from 'node:stream/promises';
import { internal } from '../../../lib/errors.ts';
import { FakeClock } from '../../../lib/fake-clock.ts';
import { FakeSpdyClient } from '../fake-spdy-client.ts';
import type { FakeStream } from '../fake-spdy-client.ts';
import { portForwardRequest, serveFake, until } from '../fake-stream-handlers.ts';
import type { StreamHandlers, StreamingServer } from '../streams.ts';

const servers: StreamingServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

async function connect(
  portForward: StreamHandlers['portForward'],
  options: Parameters<typeof serveFake>[1] & { keepsWindows?: boolean } = {},
): Promise<FakeSpdyClient> {
  const server = await serveFake({ portForward }, options);
  servers.push(server);
  return await FakeSpdyClient.connect(server.portForwardUrl(portForwardRequest()), 'portforward.k8s.io', options);
}

async function open(
  client: FakeSpdyClient,
  port: number,
  id: number,
): Promise<{ data: FakeStream; error: FakeStream }> {
  const headers = { port: String(port), requestid: String(id) };
  const error = await client.open({ streamtype: 'error', ...headers });
  await error.end();
  return { error, data: await client.open({ streamtype: 'data', ...headers }) };
}

const echo: StreamHandlers['portForward'] = async (_op, request, port, data) => {
  data.write(`${request.podSandboxId}:${port} `);
  await pipeline(data, data);
};

test('many connections at once, each with its bytes both ways and its half close', async () => {
  const client = await connect(echo);
  const all = Array.from({ length: 60 }, async (_, id) => {
    const { data, error } = await open(client, 80 + id, id);
    await data.write(`hello ${id}`);
    await data.end();
    assert.equal(await data.text(), `p1:${80 + id} hello ${id}`);
    assert.equal(await error.text(), '');
  });
  await Promise.all(all);
  await client.leave();
});

test('what goes wrong with one is said in its error stream; the session goes on', async () => {
  const client = await connect(async (op, request, port, data) => {
    if (port === 1) throw internal('connection refused');
    await echo(op, request, port, data);
  });
  const { data, error } = await open(client, 1, 0);
  assert.equal(await error.text(), 'error forwarding port 1 to pod sandbox p1: connection refused');
  assert.equal(await data.ended.promise, 'reset');
  const second = await open(client, 2, 1);
  await second.data.end();
  assert.equal(await second.data.text(), 'p1:2 ');
  await client.leave();
});

test('one that the client resets fires its own signal, and nothing is said: most clients would end the session', async () => {
  const reasons: string[] = [];
  const client = await connect(async (op, _request, port, data) => {
    data.write('x');
    await new Promise((resolve) => op.signal.addEventListener('abort', resolve));
    reasons.push(`${port} ${String(op.signal.reason)}`);
    throw op.signal.reason;
  });
  const first = await open(client, 1, 0);
  const second = await open(client, 2, 1);
  await until('it runs', () => first.data.bytes > 0 && second.data.bytes > 0);
  await first.data.reset();
  assert.equal(await first.error.text(), '');
  assert.equal(reasons.length, 1);
  assert.match(reasons[0]!, /^1 .*closed the connection to the port/);
  client.socket.destroy();
  await until('the other hears of it', () => reasons.length === 2);
  assert.match(reasons[1]!, /^2 .*the connection is over/);
});

test('streams that are no pair are refused, or told so after 30 s', async () => {
  const clock = new FakeClock();
  const client = await connect(echo, { clock });
  const wrong: Record<string, string>[] = [
    {},
    { streamtype: 'data' },
    { streamtype: 'data', port: '0' },
    { streamtype: 'data', port: '65536' },
    { streamtype: 'data', port: '8x' },
    { streamtype: 'stdin', port: '80' },
  ];
  for (const headers of wrong) {
    await assert.rejects(client.open({ requestid: '1', ...headers }), /refused/, JSON.stringify(headers));
  }
  const error = await client.open({ streamtype: 'error', port: '80', requestid: '2' });
  await assert.rejects(client.open({ streamtype: 'error', port: '80', requestid: '2' }), /refused/);
  await assert.rejects(client.open({ streamtype: 'data', port: '81', requestid: '2' }), /refused/);
  const data = await client.open({ streamtype: 'data', port: '80', requestid: '3' });
  await clock.advance(30_000);
  assert.match(await error.text(), /has not opened the second stream of request 2/);
  assert.equal(await data.ended.promise, 'reset');
  await client.leave();
});

test('old clients send no request id', async () => {
  const client = await connect(echo);
  const error = await client.open({ streamtype: 'error', port: '80' });
  const data = await client.open({ streamtype: 'data', port: '80' });
  await data.end();
  assert.equal(await data.text(), 'p1:80 ');
  assert.equal(await error.text(), '');
  await client.leave();
});

test('one that nobody reads at the far end does not hold up the others of a client that keeps windows', async () => {
  const client = await connect(
    async (op, request, port, data) => {
      if (port === 1) await once(op.signal, 'abort');
      else await echo(op, request, port, data);
    },
    { keepsWindows: true },
  );
  const stuck = await open(client, 1, 0);
  // All that its window lets it send.
  await stuck.data.write(Buffer.alloc(256 * 1024));
  const other = await open(client, 2, 1);
  await other.data.write('through');
  await other.data.end();
  assert.equal(await other.data.text(), 'p1:2 through');
  await client.leave();
});

test('one that the client does not read does not hold up the others, where it keeps windows', async () => {
  const client = await connect(async (op, request, port, data) => {
    if (port === 2) await echo(op, request, port, data);
    else
      for (;;)
        await new Promise<void>((resolve, reject) =>
          data.write(Buffer.alloc(65_536), (error) => (error ? reject(error) : resolve())),
        );
  });
  // It shows that it keeps windows, and then never makes the first stream’s larger.
  await client.raw(Buffer.from('80030009000000080000000000100000', 'hex'));
  const stuck = await open(client, 1, 0);
  await until('its window is used up', () => stuck.data.bytes === 65_536);
  const other = await open(client, 2, 1);
  await other.data.write('through');
  await other.data.end();
  assert.equal(await other.data.text(), 'p1:2 through');
  assert.equal(stuck.data.bytes, 65_536);
  await client.leave();
});
