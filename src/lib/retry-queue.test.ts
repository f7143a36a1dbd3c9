import assert from 'node:assert/strict';
import { test } from 'node:test';
import { backoffDelayMs, CLEANUP_BACKOFF } from './backoff.ts';
import { FakeClock } from './fake-clock.ts';
import { silentLog } from './log.ts';
import fc from 'fast-check';
import { RetryQueue } from './retry-queue.ts';

const SETTINGS = { log: silentLog, policy: CLEANUP_BACKOFF, attemptTimeoutMs: 10_000, nameOf: String };

function setUp(fails: (id: string, event: string) => boolean): {
  clock: FakeClock;
  queue: RetryQueue<string>;
  tried: [string, string, number][];
} {
  const clock = new FakeClock();
  const tried: [string, string, number][] = [];
  const queue = new RetryQueue<string>({
    ...SETTINGS,
    clock,
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
    ...SETTINGS,
    clock,
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
          ...SETTINGS,
          clock,
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

test('what fails while its id is being worked on waits like any other failure: nothing ever spins', async () => {
  const clock = new FakeClock();
  const tried: number[] = [];
  const queue: RetryQueue<string> = new RetryQueue<string>({
    ...SETTINGS,
    clock,
    handle: (_op, id, event) => {
      tried.push(clock.monotonicMs());
      // Says so itself and ends well, as a step does whose own work goes on failing beside it.
      if (tried.length < 30) queue.fail(id, event, new Error('not yet'));
      return Promise.resolve();
    },
  });
  queue.fail('a', 'x', new Error('not yet'));
  await clock.advance(20_000);
  assert.deepEqual(tried, [1_000, 3_000, 7_000, 15_000]);
  assert.deepEqual([queue.viewOf('a')?.attempts, queue.viewOf('a')?.lastError], [5, 'not yet']);
  await clock.advance(24 * 3_600_000);
  assert.ok(!queue.has('a'));
});

test('first attempts of one id that fail side by side wait in the order in which they arrived, not in that of their failures', async () => {
  const clock = new FakeClock();
  const takesMs = new Map([
    ['x', 300],
    ['y', 100],
    ['z', 200],
  ]);
  const tried: string[] = [];
  let broken = true;
  const queue = new RetryQueue<string>({
    ...SETTINGS,
    clock,
    handle: async (_op, _id, event) => {
      tried.push(event);
      await clock.sleep(takesMs.get(event) ?? 0);
      if (broken) throw new Error(`${event} fails`);
    },
  });
  for (const event of ['x', 'y', 'z']) void queue.attempt('a', event);
  await clock.advance(300);
  assert.deepEqual(queue.viewOf('a')?.events, ['x', 'y', 'z']);
  broken = false;
  await clock.advance(10_000);
  assert.deepEqual(tried, ['x', 'y', 'z', 'x', 'y', 'z']);
});

test('who fails while those behind it are being worked on holds them up: they wait again, behind it', async () => {
  const clock = new FakeClock();
  const tried: string[] = [];
  const queue: RetryQueue<string> = new RetryQueue<string>({
    ...SETTINGS,
    clock,
    handle: async (_op, _id, event) => {
      const first = !tried.includes(event);
      tried.push(event);
      // The first attempt at x ends while y, in its turn again, is at work.
      await clock.sleep(event === 'x' && first ? 1_700 : 500);
      if (first) throw new Error(`${event} fails`);
    },
  });
  for (const event of ['x', 'y', 'z']) void queue.attempt('a', event);
  await clock.advance(60_000);
  assert.deepEqual(tried, ['x', 'y', 'z', 'y', 'x', 'z']);
  assert.ok(!queue.has('a'));
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

interface Arrival {
  readonly id: string;
  readonly afterMs: number;
  /** How often its handling fails before it works. */
  readonly failures: number;
  readonly takesMs: number;
}

interface Handled {
  readonly id: string;
  readonly event: number;
  readonly beganMs: number;
  readonly endedMs: number;
  readonly ok: boolean;
}

const arrivals: fc.Arbitrary<Arrival[]> = fc.array(
  fc.record({
    id: fc.constantFrom('a', 'b'),
    // Most arrive close together; some when the pauses have grown long.
    afterMs: fc.oneof(fc.constant(0), fc.nat(3_000), fc.nat(200_000)),
    failures: fc.oneof(fc.constant(0), fc.nat(4), fc.nat(12)),
    takesMs: fc.oneof(fc.constant(0), fc.nat(2_500)),
  }),
  { minLength: 1, maxLength: 12 },
);

/** Plays the arrivals until all is done. `enteredMs`: when each event that went into back-off did so. */
async function play(
  plan: readonly Arrival[],
): Promise<{ handled: Handled[]; arrivedMs: number[]; enteredMs: Map<number, number>; busy: boolean }> {
  const clock = new FakeClock();
  const handled: Handled[] = [];
  const arrivedMs: number[] = [];
  const enteredMs = new Map<number, number>();
  const left = plan.map(({ failures }) => failures);
  const queue: RetryQueue<number> = new RetryQueue<number>({
    ...SETTINGS,
    clock,
    handle: async (_op, id, event) => {
      const beganMs = clock.monotonicMs();
      const { takesMs = 0 } = plan[event] ?? {};
      if (takesMs > 0) await clock.sleep(takesMs);
      const ok = (left[event] ?? 0) === 0;
      handled.push({ id, event, beganMs, endedMs: clock.monotonicMs(), ok });
      if (ok) return;
      left[event] = (left[event] ?? 0) - 1;
      if (!enteredMs.has(event)) enteredMs.set(event, clock.monotonicMs());
      throw new Error('not yet');
    },
  });
  for (const [event, { id, afterMs }] of plan.entries()) {
    await clock.advance(afterMs);
    arrivedMs.push(clock.monotonicMs());
    if (queue.has(id)) enteredMs.set(event, clock.monotonicMs());
    void queue.attempt(id, event);
  }
  await clock.advance(24 * 3_600_000);
  return { handled, arrivedMs, enteredMs, busy: queue.view().length > 0 };
}

test('whatever comes and fails when: each event is done once, and in back-off in the order in which it arrived', async () => {
  await fc.assert(
    fc.asyncProperty(arrivals, async (plan) => {
      const { handled, arrivedMs, enteredMs, busy } = await play(plan);
      assert.ok(!busy);
      const done = handled.filter(({ ok }) => ok);
      assert.deepEqual(
        done.map(({ event }) => event).sort((x, y) => x - y),
        [...plan.keys()],
      );
      for (const { event, beganMs } of done) assert.ok(beganMs >= (arrivedMs[event] ?? Infinity));
      const waited = done.filter(({ event }) => enteredMs.has(event));
      for (const [index, later] of waited.entries()) {
        for (const earlier of waited.slice(index + 1)) {
          if (earlier.id !== later.id || earlier.event > later.event) continue;
          // Overtaken: only by what was at work before this one had failed at all.
          assert.ok(later.beganMs <= (enteredMs.get(earlier.event) ?? 0), `${later.event} before ${earlier.event}`);
        }
      }
    }),
    { numRuns: 60 },
  );
});

test('a queue that falls due is taken whole; what follows a failure waits; the pause doubles until all that was taken is done', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(3), { minLength: 2, maxLength: 5 }), async (failures) => {
      // All of one id, at once: the first fails, so that the others queue up behind it.
      const plan = failures.map((count, index) => ({
        id: 'a',
        afterMs: 0,
        failures: index === 0 ? count + 1 : count,
        takesMs: 0,
      }));
      const { handled } = await play(plan);
      const expected: [number, boolean, number][] = [];
      const left = plan.map((one) => one.failures);
      let atMs = 0;
      let attempts = 0;
      let next = 0;
      while (next < plan.length) {
        const ok = left[next] === 0;
        expected.push([next, ok, atMs]);
        if (ok) next++;
        else {
          left[next] = (left[next] ?? 0) - 1;
          atMs += backoffDelayMs(CLEANUP_BACKOFF, ++attempts);
        }
      }
      assert.deepEqual(
        handled.map(({ event, ok, beganMs }) => [event, ok, beganMs]),
        expected,
      );
    }),
    { numRuns: 60 },
  );
});

test('no id waits for another: what happens to one is the same with and without the other', async () => {
  await fc.assert(
    fc.asyncProperty(arrivals, async (plan) => {
      const together = (await play(plan)).handled.filter(({ id }) => id === 'a');
      let skippedMs = 0;
      const events: number[] = [];
      const alone = plan.flatMap((one, event) => {
        skippedMs += one.afterMs;
        if (one.id !== 'a') return [];
        const afterMs = skippedMs;
        skippedMs = 0;
        events.push(event);
        return [{ ...one, afterMs }];
      });
      const { handled } = await play(alone);
      assert.deepEqual(
        handled.map((one) => ({ ...one, event: events[one.event] })),
        together,
      );
    }),
    { numRuns: 40 },
  );
});

test('what all else of an id depends on goes first, whenever it falls into back-off', async () => {
  const clock = new FakeClock();
  const done: string[] = [];
  let found = false;
  // A removal waits for an exit that only a recovery can find out about.
  const queue = new RetryQueue<string>({
    ...SETTINGS,
    clock,
    goesFirst: (event) => event === 'recovery',
    handle: (_op, _id, event) => {
      if (event === 'recovery') found = true;
      if (!found) return Promise.reject(new Error('it does not end'));
      done.push(event);
      return Promise.resolve();
    },
  });
  queue.fail('a', 'removal', new Error('the disk is full'));
  queue.fail('a', 'recovery', new Error('the disk is full'));
  await clock.advance(1_000_000);
  assert.deepEqual(done, ['recovery', 'removal']);
  assert.ok(!queue.has('a'));
});
