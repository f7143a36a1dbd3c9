import assert from 'node:assert/strict';
import { once } from 'node:events';
import net from 'node:net';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { FakeClock } from '../../lib/fake-clock.ts';
import { silentLog } from '../../lib/log.ts';
import { FakeSpdyClient } from './fake-spdy-client.ts';
import { until } from './fake-stream-handlers.ts';
import {
  dataHead,
  FLAG_FIN,
  FLAG_UNIDIRECTIONAL,
  goAway,
  ping,
  settings,
  windowUpdate,
} from '../../lib/spdy/frames.ts';
import { SpdyConnection } from '../../lib/spdy/spdy-connection.ts';
import type { StreamOffer } from '../../lib/spdy/spdy-connection.ts';
import type { SpdyStream } from '../../lib/spdy/spdy-stream.ts';

interface Pair {
  readonly connection: SpdyConnection;
  readonly client: FakeSpdyClient;
  readonly streams: SpdyStream[];
  readonly clock: FakeClock;
}

/** A connection that accepts what it is offered, and its client. */
async function connected(context: TestContext, options: { keepsWindows?: boolean } = {}): Promise<Pair> {
  const clock = new FakeClock();
  const streams: SpdyStream[] = [];
  const onStream = (offer: StreamOffer): void => void streams.push(offer.accept('both'));
  const listener = net.createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const socket = net.connect((listener.address() as net.AddressInfo).port, '127.0.0.1');
  const [transport] = (await once(listener, 'connection')) as [net.Socket];
  listener.close();
  const connection = new SpdyConnection({ transport, clock, log: silentLog, active: () => undefined, onStream });
  context.after(() => {
    connection.destroy('the test is over');
    socket.destroy();
  });
  return { connection, client: new FakeSpdyClient(socket, options), streams, clock };
}

test('a HEADERS frame says nothing, but keeps the compression in step and may close the client’s half', async (context) => {
  const { client, streams } = await connected(context);
  const opened = await client.open({ a: 'b' });
  const block = await client.block({ later: 'x' });
  const head = Buffer.from('800300080100000000000000', 'hex');
  head.writeUIntBE(4 + block.length, 5, 3);
  head.writeUInt32BE(opened.id, 8);
  await client.raw(Buffer.concat([head, block]));
  streams[0]!.resume();
  await once(streams[0]!, 'end');
  await client.open({ later: 'x' });
});

test('a stream may be closed by the frame that opens it; one that goes one way only is refused', async (context) => {
  const { client, streams } = await connected(context);
  await client.raw(await client.synStream(1, {}, FLAG_FIN));
  await until('it is there', () => streams.length === 1);
  streams[0]!.resume();
  await once(streams[0]!, 'end');
  await client.raw(await client.synStream(3, {}, FLAG_UNIDIRECTIONAL));
  await until('it is refused', () => client.frames.some((frame) => frame.kind === 'rstStream' && frame.streamId === 3));
});

test('a thousand streams and no more', async (context) => {
  const { client, streams } = await connected(context);
  await Promise.all(Array.from({ length: 1_024 }, () => client.open({})));
  assert.equal(streams.length, 1_024);
  await assert.rejects(client.open({}), /refused/);
  streams[0]!.destroy();
  await client.open({});
});

test('what makes a stream’s window too large ends the stream, what makes the connection’s too large ends that', async (context) => {
  const { client, connection } = await connected(context);
  const opened = await client.open({});
  await client.raw(windowUpdate(opened.id, 0x7fff_ffff));
  assert.equal(await opened.ended.promise, 'reset');
  await client.open({});
  await client.raw(windowUpdate(0, 0x7fff_ffff));
  await client.closed.promise;
  assert.equal(client.frames.at(-1)?.kind, 'goAway');
  await until('it is over', () => connection.gone.aborted);
});

const broken: readonly [string, (client: FakeSpdyClient) => Promise<Buffer> | Buffer][] = [
  ['a stream that was there before', (client) => client.synStream(1, {})],
  ['a stream with a number of the server’s', (client) => client.synStream(8, {})],
  ['data for a stream that was never opened', () => dataHead(99, 0, true)],
  ['a window that is too large from the beginning', () => settings(0xffff_ffff)],
  ['headers that cannot be read', () => Buffer.from('800300080000000800000001ffffffff', 'hex')],
];
for (const [name, bytes] of broken) {
  test(`the client is told and let go: ${name}`, async (context) => {
    const { client, streams } = await connected(context);
    await client.open({});
    await client.raw(await bytes(client));
    await client.closed.promise;
    assert.equal(client.frames.at(-1)?.kind, 'goAway');
    assert.equal(streams[0]!.destroyed, true);
  });
}

test('a client that is told and neither closes nor reads is cut off', async (context) => {
  const { client, connection, clock } = await connected(context);
  client.socket.pause();
  await client.raw(dataHead(99, 0, true));
  await clock.advance(0);
  await until('the goodbye is under way', () => clock.pendingTimers > 0 || connection.gone.aborted);
  await clock.advance(10_000);
  assert.equal(connection.gone.aborted, true);
});

test('a client that says goodbye opens nothing more; the connection ends with its last stream', async (context) => {
  const { client, streams } = await connected(context);
  const opened = await client.open({});
  await client.raw(goAway(0, 0));
  await assert.rejects(client.open({}), /refused/);
  streams[0]!.end('still here');
  assert.equal(await opened.text(), 'still here');
  await opened.end();
  streams[0]!.resume();
  await client.closed.promise;
});

test('questions are not read while the answers are not', async (context) => {
  const { client, connection } = await connected(context);
  client.socket.pause();
  const pings = Buffer.concat(Array.from({ length: 5_000 }, () => ping(1)));
  let taken = 0;
  const flood = async (): Promise<void> => {
    while (!client.socket.destroyed && taken < 400_000_000) {
      await client.raw(pings);
      taken += pings.length;
    }
  };
  void flood();
  let before = -1;
  await until('no more are read', () => {
    const still = taken === before && taken > 0;
    before = taken;
    return still;
  });
  assert.ok(taken < 100_000_000, `${taken} bytes of pings were read`);
  client.socket.destroy();
  await until('it is over', () => connection.gone.aborted);
});

test('a client that keeps no windows is found out by one ping, and sent all', async (context) => {
  const { client, streams } = await connected(context);
  const opened = await client.open({});
  const pings = (): number => client.frames.filter((frame) => frame.kind === 'ping').length;
  await new Promise((resolve) => streams[0]!.write(Buffer.alloc(1_000_000), resolve));
  await until('all of it is there', () => opened.bytes === 1_000_000);
  assert.equal(pings(), 1);
});

test('a write that waits for a window fails when the stream ends: whoever waits for it goes on', async (context) => {
  const { client, streams } = await connected(context);
  await client.raw(settings(10));
  const opened = await client.open({});
  const written = new Promise<unknown>((resolve) => streams[0]!.write(Buffer.alloc(100), resolve));
  await until('the window is used up', () => opened.bytes === 10);
  await opened.reset();
  assert.ok((await written) instanceof Error);
});

test('a client that keeps them is sent no more than it lets', async (context) => {
  const { client, streams } = await connected(context);
  await client.raw(settings(1_000));
  const opened = await client.open({});
  streams[0]!.write(Buffer.alloc(5_000));
  await until('the window is used up', () => opened.bytes === 1_000);
  await client.raw(windowUpdate(opened.id, 1_500));
  await until('the update is used up', () => opened.bytes === 2_500);
  await client.raw(settings(4_000));
  await until('so is the setting', () => opened.bytes === 5_000);
  assert.equal(
    client.frames.some((frame) => frame.kind === 'ping'),
    false,
  );
});
