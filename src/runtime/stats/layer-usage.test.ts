import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Op } from '../../lib/abort.ts';
import { internal, notFound } from '../../lib/errors.ts';
import { FakeClock } from '../../lib/fake-clock.ts';
import { silentLog } from '../../lib/log.ts';
import { FRESH_MS, LayerUsage } from './layer-usage.ts';

const op: Op = { signal: new AbortController().signal, log: silentLog };
const RUNNING = { still: false, patienceMs: 1_000 };
const ENDED = { still: true, patienceMs: 1_000 };

class Room {
  readonly clock = new FakeClock();
  bytes = 100;
  walks = 0;
  /** How long a walk takes. */
  walkMs = 0;
  failure: Error | undefined;
  readonly layers = new LayerUsage({
    clock: this.clock,
    background: op,
    walk: async () => {
      this.walks++;
      if (this.walkMs > 0) await this.clock.sleep(this.walkMs);
      if (this.failure !== undefined) throw this.failure;
      return { bytes: this.bytes, inodes: 3 };
    },
  });

  async bytesOf(id: string, how = RUNNING): Promise<number | undefined> {
    return (await this.layers.of(op, id, how))?.bytes;
  }
}

test('a tree is walked once for many calls, and again when what was told is old', async () => {
  const room = new Room();
  assert.deepEqual(await Promise.all([room.bytesOf('c'), room.bytesOf('c')]), [100, 100]);
  room.bytes = 200;
  assert.equal(await room.bytesOf('c'), 100);
  assert.equal(room.walks, 1);
  await room.clock.advance(FRESH_MS);
  assert.equal(await room.bytesOf('c'), 200);
  assert.equal(room.walks, 2);
});

test('a call waits only so long, and gets what is known', async () => {
  const room = new Room();
  await room.bytesOf('c');
  await room.clock.advance(FRESH_MS);
  room.bytes = 200;
  room.walkMs = 5_000;
  const asked = room.bytesOf('c');
  await room.clock.advance(RUNNING.patienceMs);
  assert.equal(await asked, 100);
  await room.clock.advance(4_000);
  assert.equal(await room.bytesOf('c'), 200, 'the walk went on behind the call');
  assert.equal(room.walks, 2);
});

test('the first walk is waited for longer, but not again and again', async () => {
  const room = new Room();
  const first = { still: false, patienceMs: 500, firstPatienceMs: 5_000 };
  room.walkMs = 4_000;
  const told = room.bytesOf('c', first);
  await room.clock.advance(4_000);
  assert.equal(await told, 100);

  room.walkMs = 60_000;
  const gaveUp = room.bytesOf('big', first);
  await room.clock.advance(5_000);
  assert.equal(await gaveUp, undefined);
  const later = room.bytesOf('big', first);
  await room.clock.advance(500);
  assert.equal(await later, undefined);
});

test('of what is slow to walk the walks take no more than a tenth of the time', async () => {
  const room = new Room();
  room.walkMs = 4_000;
  const asked = room.bytesOf('c', { still: false, patienceMs: 10_000 });
  await room.clock.advance(4_000);
  assert.equal(await asked, 100);
  await room.clock.advance(30_000);
  await room.bytesOf('c');
  assert.equal(room.walks, 1);
  await room.clock.advance(10_000);
  void room.bytesOf('c');
  await room.clock.advance(1);
  assert.equal(room.walks, 2);
});

test('what has ended is walked once more, and never again', async () => {
  const room = new Room();
  await room.bytesOf('c');
  room.bytes = 200;
  assert.equal(await room.bytesOf('c', ENDED), 200);
  await room.clock.advance(100 * FRESH_MS);
  assert.equal(await room.bytesOf('c', ENDED), 200);
  assert.equal(room.walks, 2);
  assert.equal(await room.bytesOf('c', RUNNING), 200, 'it was started again');
  assert.equal(room.walks, 3);
});

test('a walk that fails keeps what was known; of what is gone nothing is', async () => {
  const room = new Room();
  await room.bytesOf('c');
  await room.clock.advance(FRESH_MS);
  room.failure = internal('the disk fails');
  assert.equal(await room.bytesOf('c'), 100);
  room.failure = notFound('no such snapshot');
  await room.bytesOf('c');
  room.failure = undefined;
  room.bytes = 300;
  assert.equal(await room.bytesOf('c'), 300);
  room.layers.forget('c');
  room.bytes = 400;
  assert.equal(await room.bytesOf('c'), 400);
});

test('a caller that goes away ends no walk', async () => {
  const room = new Room();
  room.walkMs = 500;
  const leaving = new AbortController();
  const asked = room.layers.of({ ...op, signal: leaving.signal }, 'c', RUNNING);
  leaving.abort(new Error('gone'));
  await assert.rejects(asked, /gone/);
  await room.clock.advance(500);
  assert.equal(await room.bytesOf('c'), 100);
  assert.equal(room.walks, 1);
});
