import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { CLEANUP_BACKOFF } from '../../lib/backoff.ts';
import { FakeClock } from '../../lib/fake-clock.ts';
import { silentLog } from '../../lib/log.ts';
import { RetryQueue } from './retry-queue.ts';

function setUp(fails: (id: string, event: string) => boolean): {
  clock: FakeClock;
  queue: RetryQueue<string>;
  tried: [string, string, number][];
} {
  const clock = new FakeClock();
  const tried: [string, string, number][] = [];
  const queue = new RetryQueue<string>({
    clock,
    log: silentLog,
    policy: CLEANUP_BACKOFF,
    attemptTimeoutMs: 10_000,
    nameOf: (event) => event,
    handle: (_op, id, event) => {
      tried.push([id, event, clock.monotonicMs()]);
      return fails(id, event) ? Promise.reject(new Error(`${event} fails`)) : Promise.resolve();
    },
  });
  return { clock, queue, tried };
}

test('1 s, doubling to 5 min, until it works', async () => {
  let broken = true;
  const { clock, queue, tried } = setUp(() => broken);
  assert.equal(await queue.attempt('a', 'x'), false);
  await clock.advance(2_000_000);
  const pauses = tried.slice(1).map(([, , atMs], index) => atMs - (tried[index]?.[2] ?? 0));
  assert.deepEqual(
    pauses.slice(0, 11),
    [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300].map((s) => s * 1000),
  );
  assert.equal(queue.view()[0]?.lastError, 'x fails');
  broken = false;
  await clock.advance(300_000);
  assert.ok(!queue.has('a'));
});

test('events of an id in back-off keep their order behind it, and stop at the first failure', async () => {
  const broken = new Set(['x']);
  const { clock, queue, tried } = setUp((_id, event) => broken.has(event));
  await queue.attempt('a', 'x');
  assert.equal(await queue.attempt('a', 'y'), false, 'it waits behind x');
  await queue.attempt('a', 'z');
  await queue.attempt('a', 'y');
  broken.delete('x');
  broken.add('y');
  await clock.advance(1_000);
  assert.deepEqual(
    tried.map(([, event]) => event),
    ['x', 'x', 'y'],
  );
  assert.deepEqual(queue.viewOf('a')?.events, ['y', 'z']);
  broken.clear();
  await clock.advance(300_000);
  assert.deepEqual(
    tried.slice(3).map(([, event]) => event),
    ['y', 'z'],
  );
});

test('one id does not wait for another', async () => {
  const { clock, queue, tried } = setUp((id) => id === 'stuck');
  await queue.attempt('stuck', 'x');
  assert.equal(await queue.attempt('fine', 'x'), true);
  await clock.advance(1);
  assert.deepEqual(
    tried.map(([id]) => id),
    ['stuck', 'fine'],
  );
});

test('an attempt that hangs is given up after its budget, and counted', async () => {
  const clock = new FakeClock();
  const queue = new RetryQueue<string>({
    clock,
    log: silentLog,
    policy: CLEANUP_BACKOFF,
    attemptTimeoutMs: 10_000,
    nameOf: (event) => event,
    handle: () => new Promise(() => undefined),
  });
  const attempt = queue.attempt('a', 'x');
  await clock.advance(10_000);
  assert.equal(await attempt, false);
  assert.match(queue.viewOf('a')?.lastError ?? '', /10000 ms/);
});

test('what comes while an attempt runs is merged, never lost', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.constantFrom('p', 'q', 'r', 's'), { minLength: 1, maxLength: 8 }),
      fc.nat(3),
      async (arrivals, failures) => {
        const clock = new FakeClock();
        const done: string[] = [];
        let left = failures + 1;
        const queue: RetryQueue<string> = new RetryQueue<string>({
          clock,
          log: silentLog,
          policy: CLEANUP_BACKOFF,
          attemptTimeoutMs: 10_000,
          nameOf: (event) => event,
          handle: async (_op, id, event) => {
            await clock.sleep(5);
            if (left > 0) {
              left--;
              for (const arrival of arrivals) void queue.attempt(id, arrival);
              throw new Error('not yet');
            }
            done.push(event);
          },
        });
        void queue.attempt('a', 'first');
        await clock.advance(2_000_000);
        assert.ok(!queue.has('a'));
        assert.deepEqual(new Set(done), new Set(['first', ...arrivals]));
      },
    ),
    { numRuns: 30 },
  );
});

test('forgotten or closed, nothing is tried any more', async () => {
  const { clock, queue, tried } = setUp(() => true);
  await queue.attempt('a', 'x');
  await queue.attempt('b', 'x');
  queue.forget('a');
  queue.close();
  await clock.advance(1_000_000);
  assert.equal(tried.length, 2);
});
