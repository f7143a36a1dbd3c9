import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { isKind } from './errors.ts';
import { FakeClock } from './fake-clock.ts';
import { Lane, Lanes } from './lane.ts';
import { silentLog } from './log.ts';

const step = <T>(name: string, run: (signal: AbortSignal) => Promise<T>, timeoutMs = 1_000) => ({
  name,
  timeoutMs,
  run: (op: { signal: AbortSignal }) => run(op.signal),
});

test('steps of one lane never overlap and keep their order, whatever they do', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.record({ turns: fc.nat(4), fails: fc.boolean() }), { maxLength: 12 }),
      async (plan) => {
        const lane = new Lane(new FakeClock(), silentLog);
        const seen: number[] = [];
        let inside = 0;
        const results = plan.map(({ turns, fails }, index) =>
          lane.enqueue(
            step(`step ${index}`, async () => {
              assert.equal(++inside, 1);
              for (let i = 0; i < turns; i++) await Promise.resolve();
              seen.push(index);
              inside--;
              if (fails) throw new Error(`step ${index} failed`);
              return index;
            }),
          ),
        );
        const outcomes = await Promise.allSettled(results);
        assert.deepEqual(seen, [...plan.keys()]);
        assert.deepEqual(
          outcomes.map((outcome) => outcome.status === 'rejected'),
          plan.map(({ fails }) => fails),
        );
      },
    ),
  );
});

test('a step over its budget fails its caller at once, and keeps the lane until it has really ended', async () => {
  const clock = new FakeClock();
  const lane = new Lane(clock, silentLog);
  const gate = Promise.withResolvers<undefined>();
  const slow = lane.enqueue(step('slow', () => gate.promise, 100));
  let ran = false;
  const next = lane.enqueue(
    step('next', () => {
      ran = true;
      return Promise.resolve();
    }),
  );
  const failed = assert.rejects(slow, (error) => isKind(error, 'DeadlineExceeded'));
  await clock.advance(100);
  await failed;
  assert.equal(ran, false);
  assert.deepEqual(lane.view(), { running: { name: 'slow', sinceMs: 0, waits: [] }, queued: ['next'] });
  gate.resolve(undefined);
  await next;
  assert.equal(ran, true);
});

test('a lane that hangs does not hold up another', async () => {
  const lanes = new Lanes(new FakeClock(), silentLog);
  void lanes.enqueue(
    'hung',
    step('never', () => new Promise(() => undefined)),
  );
  assert.equal(
    await lanes.enqueue(
      'free',
      step('quick', () => Promise.resolve(7)),
    ),
    7,
  );
});

test('abortRunning fires the signal of the step that runs now if it is the one that is meant, and no other', async () => {
  const lanes = new Lanes(new FakeClock(), silentLog);
  const first = lanes.enqueue(
    'a',
    step(
      'create',
      (signal) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error))),
    ),
  );
  const second = lanes.enqueue(
    'a',
    step('stop', () => Promise.resolve('stopped')),
  );
  await Promise.resolve();
  lanes.abortRunning('a', 'stop', 'that one waits');
  lanes.abortRunning('b', 'create', 'there is no such lane');
  lanes.abortRunning('a', 'create', 'stop was asked for');
  await assert.rejects(
    first,
    (error) => isKind(error, 'Canceled') && /stop was asked for/.test((error as Error).message),
  );
  assert.equal(await second, 'stopped');
});

test('a lane with nothing left to do is forgotten', async () => {
  const lanes = new Lanes(new FakeClock(), silentLog);
  for (let i = 0; i < 100; i++)
    await lanes.enqueue(
      `id${i}`,
      step('one', () => Promise.resolve()),
    );
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(lanes.size, 0);
});
