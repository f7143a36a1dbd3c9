import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../lib/fake-clock.ts';
import { silentLog } from '../lib/log.ts';
import { PeerPool, type PeerPoolOptions } from './peer-pool.ts';
import type { PeerReply } from './peer-protocol.ts';

interface FakePeer {
  readonly posted: number[];
  readonly reply: (reply: PeerReply) => void;
  readonly end: () => void;
  killed: boolean;
}

function bench(options: Partial<PeerPoolOptions> = {}): { pool: PeerPool; peers: FakePeer[]; clock: FakeClock } {
  const peers: FakePeer[] = [];
  const clock = new FakeClock();
  const pool = new PeerPool({
    ...{
      clock,
      what: 'test',
      idleMs: 100,
      maxPeers: 2,
      callsPerPeer: 1,
      onGivenUp: 'kill',
      maxHung: 5,
      describe: (n: number) => `call ${n}`,
    },
    start: (reply, end) => {
      const peer: FakePeer = { posted: [], reply, end, killed: false };
      peers.push(peer);
      return {
        post: ({ seq }) => peer.posted.push(seq),
        kill: () => (peer.killed = true),
        setRef: () => undefined,
      };
    },
    ...options,
  });
  return { pool, peers, clock };
}

const op = { signal: new AbortController().signal, log: silentLog };

test('starts no more peers than allowed, serves the rest in turn, ends idle ones', async () => {
  const { pool, peers, clock } = bench();
  const results = [1, 2, 3].map((n) => pool.call(op, n));
  assert.deepEqual(
    peers.map(({ posted }) => posted),
    [[1], [2]],
  );
  peers[0]!.reply({ seq: 1, ok: true, value: 'one' });
  assert.equal(await results[0], 'one');
  assert.deepEqual(peers[0]!.posted, [1, 3]);
  peers[0]!.reply({ seq: 3, ok: false, error: { kind: 'NotFound', message: 'no', details: { errno: 'ENOENT' } } });
  await assert.rejects(results[2] as Promise<unknown>, { kind: 'NotFound' });
  await clock.advance(100);
  assert.deepEqual([peers[0]!.killed, peers[1]!.killed], [true, false]);
  assert.equal(pool.size, 1);
  results[1]?.catch(() => undefined);
  pool.close();
  await assert.rejects(results[1] as Promise<unknown>, /closed/);
});

test('a call that is given up frees its caller at once and its place in the pool; its peer is killed', async () => {
  const { pool, peers } = bench({ maxPeers: 1 });
  const controller = new AbortController();
  const hung = pool.call({ ...op, signal: controller.signal }, 1);
  const next = pool.call(op, 2);
  controller.abort(new Error('enough'));
  await assert.rejects(hung, /enough/);
  assert.equal(peers[0]!.killed, true);
  assert.deepEqual(peers[1]!.posted, [2]);
  peers[1]!.reply({ seq: 2, ok: true, value: undefined });
  await next;
  pool.close();
});

test('a peer is not killed under those who still wait for it', async () => {
  const { pool, peers } = bench({ callsPerPeer: 5 });
  const controller = new AbortController();
  const hung = pool.call({ ...op, signal: controller.signal }, 1);
  const other = pool.call(op, 2);
  controller.abort(new Error('enough'));
  await assert.rejects(hung);
  assert.equal(peers[0]!.killed, false);
  const third = pool.call(op, 3);
  assert.deepEqual(peers[1]!.posted, [3]);
  peers[0]!.reply({ seq: 2, ok: true, value: 'two' });
  assert.equal(await other, 'two');
  assert.equal(peers[0]!.killed, true);
  peers[1]!.reply({ seq: 3, ok: true, value: undefined });
  await third;
  pool.close();
});

test('with leave, a peer comes back into service once it has answered', async () => {
  const { pool, peers } = bench({ maxPeers: 1, onGivenUp: 'leave' });
  const controller = new AbortController();
  const hung = pool.call({ ...op, signal: controller.signal }, 1);
  controller.abort(new Error('enough'));
  await assert.rejects(hung);
  assert.equal(peers[0]!.killed, false);
  peers[0]!.reply({ seq: 1, ok: true, value: undefined });
  const next = pool.call(op, 2);
  assert.deepEqual(peers[0]!.posted, [1, 2]);
  peers[0]!.end();
  await assert.rejects(next, /ended unexpectedly/);
  pool.close();
});

/** Asks, gives up, and lets so much time pass that it counts as hung. */
async function hang({ pool, clock }: ReturnType<typeof bench>, request: number): Promise<void> {
  const controller = new AbortController();
  const hung = pool.call({ ...op, signal: controller.signal }, request);
  controller.abort(new Error('enough'));
  await assert.rejects(hung, /enough/);
  await clock.advance(5_000);
}

test('killed peers that do not die are counted: past the limit calls fail at once, naming what hangs', async () => {
  const all = bench({ maxHung: 2 });
  const { pool, peers } = all;
  await hang(all, 1);
  await hang(all, 2);
  await assert.rejects(pool.call(op, 3), (error: Error) => {
    assert.match(error.message, /call 1, call 2/);
    return 'kind' in error && error.kind === 'Unavailable';
  });
  assert.equal(peers.length, 2);
  peers[0]!.end();
  const next = pool.call(op, 3);
  peers[2]!.reply({ seq: peers[2]!.posted[0] as number, ok: true, value: 'fine' });
  assert.equal(await next, 'fine');
  pool.close();
});

test('so are threads, until they answer', async () => {
  const all = bench({ maxHung: 1, maxPeers: 1, onGivenUp: 'leave' });
  const { pool, peers } = all;
  await hang(all, 1);
  await assert.rejects(pool.call(op, 2), { kind: 'Unavailable' });
  peers[0]!.reply({ seq: 1, ok: true, value: undefined });
  const next = pool.call(op, 2);
  assert.equal(peers[0]!.posted.length, 2);
  peers[0]!.reply({ seq: peers[0]!.posted[1] as number, ok: true, value: 'fine' });
  assert.equal(await next, 'fine');
  pool.close();
});

test('what hangs is not asked for again for a while, longer each time; other calls are', async () => {
  const all = bench();
  const { pool, peers, clock } = all;
  await hang(all, 1);
  for (let minute = 0; minute < 4; minute++) {
    await assert.rejects(pool.call(op, 1), /call 1.*still hangs/);
    await clock.advance(60_000);
  }
  assert.equal(peers.length, 1);
  const other = pool.call(op, 2);
  peers[1]!.reply({ seq: peers[1]!.posted[0] as number, ok: true, value: 'fine' });
  assert.equal(await other, 'fine');
  await clock.advance(60_000);
  await hang(all, 1);
  assert.equal(peers.length, 3);
  await clock.advance(5 * 60_000);
  await assert.rejects(pool.call(op, 1), /still hangs/);
  peers[0]!.end();
  peers[2]!.end();
  const again = pool.call(op, 1);
  assert.equal(peers.length, 4);
  peers[3]!.end();
  await assert.rejects(again, /ended unexpectedly/);
  pool.close();
});
