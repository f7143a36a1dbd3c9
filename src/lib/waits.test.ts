import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withDeadline } from './abort.ts';
import { FakeClock } from './fake-clock.ts';
import { Lanes } from './lane.ts';
import { silentLog } from './log.ts';
import { waitingFor, Waits } from './waits.ts';

const never = (): Promise<never> => new Promise<never>(() => undefined);

test('a lane says what its step waits for, since when, and no longer than that', async () => {
  const clock = new FakeClock();
  const lanes = new Lanes(clock, silentLog);
  const first = Promise.withResolvers<undefined>();
  const done = lanes.enqueue('a', {
    name: 'clean up',
    timeoutMs: 60_000,
    run: async (op) => {
      await waitingFor(op, 'the unmount', () => first.promise);
      await waitingFor(op, 'a process to end', never).catch(() => undefined);
    },
  });
  await clock.advance(5_000);
  assert.deepEqual(
    lanes.view('a').running?.waits.map(({ what, sinceMs }) => [what, clock.monotonicMs() - sinceMs]),
    [['the unmount', 5_000]],
  );
  first.resolve(undefined);
  await clock.advance(2_000);
  assert.deepEqual(
    lanes.view('a').running?.waits.map(({ what }) => what),
    ['a process to end'],
  );
  done.catch(() => undefined);
});

test('a deadline names what it was waited for, through a deadline within', async () => {
  const clock = new FakeClock();
  const lanes = new Lanes(clock, silentLog);
  const failed = lanes.enqueue('a', {
    name: 'clean up',
    timeoutMs: 150_000,
    run: (op) =>
      withDeadline(op, clock, 60_000, 'releasing the task', (inner) => waitingFor(inner, 'runc delete', never)),
  });
  const error = assert.rejects(failed, /^.*releasing the task: not done within 60000 ms \(waiting for runc delete\)$/);
  await clock.advance(60_000);
  await error;
});

test('what fails is waited for no longer; without a place to note it nothing is noted', async () => {
  const clock = new FakeClock();
  const lanes = new Lanes(clock, silentLog);
  await lanes.enqueue('a', {
    name: 'try',
    timeoutMs: 1_000,
    run: async (op) => {
      await assert.rejects(waitingFor(op, 'x', () => Promise.reject(new Error('no'))));
      assert.deepEqual(lanes.view('a').running?.waits, []);
    },
  });
  assert.equal(await waitingFor({}, 'x', () => Promise.resolve(7)), 7);
});

test('who joins work that is under way waits for the same', async () => {
  const clock = new FakeClock();
  const shared = new Waits(clock);
  const gate = Promise.withResolvers<undefined>();
  const work = waitingFor({ waits: shared }, 'CNI DEL', () => gate.promise);
  const mine = new Waits(clock);
  const joined = mine.join(shared);
  assert.equal(mine.words(), ' (waiting for CNI DEL)');
  gate.resolve(undefined);
  await work;
  assert.equal(mine.words(), '');
  joined[Symbol.dispose]();
});
