import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import net from 'node:net';
import { isKind } from '../../lib/errors.ts';
import { FakeClock } from '../../lib/fake-clock.ts';
import { IdleWatch } from './idle-watch.ts';
import { InboundBudget, ownBytes } from '../../lib/spdy/inbound-budget.ts';
import { listenOn, parseHostPort, printHostPort } from './listen-address.ts';
import { negotiateProtocol } from './negotiate-protocol.ts';
import { UrlTokens } from './url-tokens.ts';

describe('URL tokens', () => {
  test('are good once', () => {
    const tokens = new UrlTokens<string>(new FakeClock());
    const token = tokens.issue('a');
    assert.match(token, /^[\w-]{22}$/);
    assert.equal(tokens.look(token), 'a');
    tokens.take(token);
    assert.equal(tokens.look(token), undefined);
    assert.equal(tokens.look(''), undefined);
  });

  test('are good for a minute', async () => {
    const clock = new FakeClock();
    const tokens = new UrlTokens<string>(clock);
    const token = tokens.issue('a');
    await clock.advance(59_000);
    assert.equal(tokens.look(token), 'a');
    await clock.advance(1_000);
    assert.equal(tokens.look(token), undefined);
  });

  test('are a thousand at most, until some are used or void', async () => {
    const clock = new FakeClock();
    const tokens = new UrlTokens<number>(clock);
    const first = tokens.issue(0);
    for (let index = 1; index < 1_000; index += 1) tokens.issue(index);
    assert.throws(
      () => tokens.issue(0),
      (error) => isKind(error, 'ResourceExhausted'),
    );
    tokens.take(first);
    tokens.issue(0);
    await clock.advance(60_000);
    for (let index = 0; index < 1_000; index += 1) tokens.issue(index);
    tokens.close();
    assert.equal(clock.pendingTimers, 0);
  });
});

test('an idle watch counts from the last touch', async () => {
  const clock = new FakeClock();
  let idle = 0;
  const watch = new IdleWatch(clock, 1_000, () => (idle += 1));
  await clock.advance(900);
  watch.touch();
  await clock.advance(900);
  assert.equal(idle, 0);
  await clock.advance(100);
  assert.equal(idle, 1);
  watch.close();
  assert.equal(clock.pendingTimers, 0);
});

describe('what has arrived and is not read', () => {
  test('is too much of one stream, until some is taken', async () => {
    const budget = new InboundBudget();
    const slow = budget.account();
    const other = budget.account();
    const piece = Buffer.alloc(200 * 1024);
    slow.hold(piece);
    other.hold(piece);
    assert.equal(budget.exhausted, false);
    slow.hold(piece);
    assert.equal(budget.exhausted, true);
    let room = false;
    const waiting = budget.room().then(() => (room = true));
    other.release(piece);
    await Promise.resolve();
    assert.equal(room, false);
    slow.release(piece);
    await waiting;
    assert.equal(budget.exhausted, false);
  });

  test('is too much of all together; small pieces count for what they cost', () => {
    const budget = new InboundBudget();
    const accounts = Array.from({ length: 20 }, () => budget.account());
    for (const account of accounts) account.hold(Buffer.alloc(300 * 1024));
    assert.equal(budget.exhausted, true);
    for (const account of accounts) account.releaseAll();
    assert.equal(budget.exhausted, false);
    const one = budget.account();
    for (let index = 0; index < 10_000; index += 1) one.hold(Buffer.from('x'));
    assert.equal(budget.exhausted, true);
  });

  test('keeps no more alive than itself', () => {
    const chunk = Buffer.alloc(64 * 1024);
    assert.equal(ownBytes(chunk.subarray(0, 10)).buffer.byteLength, 10);
    assert.equal(ownBytes(chunk.subarray(8)).buffer, chunk.buffer);
  });
});

describe('the address', () => {
  for (const [address, host, port] of [
    ['127.0.0.1:0', '127.0.0.1', 0],
    ['localhost:1234', 'localhost', 1234],
    ['[::1]:5', '::1', 5],
  ] as const) {
    test(address, () => {
      assert.deepEqual(parseHostPort(address), { host, port });
      assert.equal(printHostPort({ host, port }), address);
    });
  }

  for (const address of ['', '127.0.0.1', ':80', '::1:80', 'a:99999', 'a:b', '[::1]', 'http://a:1']) {
    test(`refused: ${JSON.stringify(address)}`, () => {
      assert.throws(
        () => parseHostPort(address),
        (error) => isKind(error, 'InvalidArgument'),
      );
    });
  }

  test('that is taken is said to be', async () => {
    const first = net.createServer();
    const { host, port } = await listenOn(first, { host: '127.0.0.1', port: 0 });
    assert.ok(port > 0);
    await assert.rejects(listenOn(net.createServer(), { host, port }), (error) => isKind(error, 'Unavailable'));
    first.close();
  });

  test('of all is this machine to clients', async () => {
    const server = net.createServer();
    assert.equal((await listenOn(server, { host: '0.0.0.0', port: 0 })).host, '127.0.0.1');
    server.close();
  });
});

describe('the protocol', () => {
  const spdy = (asked: string) => ({ upgrade: 'SPDY/3.1', 'x-stream-protocol-version': asked });
  const ws = (asked?: string) => ({ upgrade: 'websocket', 'sec-websocket-protocol': asked });
  const channels = (name: string | undefined, codec: string, closesChannels: boolean, status: boolean) => ({
    wire: 'websocket',
    name,
    codec,
    closesChannels,
    status,
  });

  test('of commands over SPDY: the client’s first that is spoken', () => {
    const asked = 'v5.channel.k8s.io, v4.channel.k8s.io, v3.channel.k8s.io';
    assert.deepEqual(negotiateProtocol('exec', spdy(asked)), { wire: 'spdy', name: 'v4.channel.k8s.io' });
    assert.deepEqual(negotiateProtocol('attach', spdy('channel.k8s.io')), { wire: 'spdy', name: 'channel.k8s.io' });
  });

  test('of commands over WebSocket', () => {
    assert.deepEqual(
      negotiateProtocol('exec', ws('v5.channel.k8s.io')),
      channels('v5.channel.k8s.io', 'binary', true, true),
    );
    assert.deepEqual(
      negotiateProtocol('exec', ws('v4.base64.channel.k8s.io')),
      channels('v4.base64.channel.k8s.io', 'base64', false, true),
    );
    assert.deepEqual(
      negotiateProtocol('exec', ws('channel.k8s.io')),
      channels('channel.k8s.io', 'binary', false, false),
    );
    assert.deepEqual(negotiateProtocol('exec', ws()), channels(undefined, 'binary', false, false));
  });

  test('of ports', () => {
    assert.deepEqual(negotiateProtocol('portforward', spdy('portforward.k8s.io')), {
      wire: 'spdy',
      name: 'portforward.k8s.io',
    });
    assert.deepEqual(negotiateProtocol('portforward', ws('SPDY/3.1+portforward.k8s.io')), {
      wire: 'spdy-in-websocket',
      name: 'SPDY/3.1+portforward.k8s.io',
    });
    assert.deepEqual(
      negotiateProtocol('portforward', ws('v4.channel.k8s.io')),
      channels('v4.channel.k8s.io', 'binary', false, true),
    );
  });

  const refused = [
    ['exec', { upgrade: 'h2c' }, 400],
    ['exec', {}, 400],
    ['exec', { upgrade: 'SPDY/3.1' }, 400],
    ['exec', spdy('v9.channel.k8s.io'), 403],
    ['exec', spdy('portforward.k8s.io'), 403],
    ['exec', ws('v9.channel.k8s.io'), 400],
    ['exec', ws('SPDY/3.1+portforward.k8s.io'), 400],
    ['portforward', ws('v5.channel.k8s.io'), 400],
  ] as const;
  for (const [kind, headers, code] of refused) {
    test(`refused: ${kind} with ${JSON.stringify(headers)}`, () => {
      const answer = negotiateProtocol(kind, headers);
      assert.equal('code' in answer && answer.code, code);
    });
  }
});
