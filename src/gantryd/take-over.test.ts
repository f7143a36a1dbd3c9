import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLog, type Log } from '../lib/log.ts';
import { TakeOver } from './take-over.ts';

const settle = (): Promise<void> => new Promise((next) => setImmediate(next));

test('why not ready: the runtime looks at what is there, then the agent takes over, then nothing', async () => {
  const recovered = Promise.withResolvers<undefined>();
  const started = Promise.withResolvers<undefined>();
  const done: string[] = [];
  const takeOver = new TakeOver(silentLog);
  takeOver.begin({
    recovered: recovered.promise.then(() => undefined),
    start: async () => {
      done.push('start');
      await started.promise;
    },
  });
  await settle();
  assert.match(takeOver.notReady() ?? '', /runtime is still looking at what was there before/);
  assert.deepEqual(done, []);
  recovered.resolve(undefined);
  await settle();
  assert.match(takeOver.notReady() ?? '', /agent is still looking at the pods/);
  assert.ok(!takeOver.isDone);
  started.resolve(undefined);
  await settle();
  assert.equal(takeOver.notReady(), undefined);
  assert.ok(takeOver.isDone);
});

test('an agent that cannot start is said to, in its words', async () => {
  const errors: string[] = [];
  const log: Log = { ...silentLog, error: (_fields, message) => void errors.push(message) };
  const takeOver = new TakeOver(log);
  takeOver.begin({ recovered: Promise.resolve(), start: () => Promise.reject(new Error('no such node')) });
  await settle();
  assert.equal(takeOver.notReady(), 'the agent could not start: no such node');
  assert.ok(!takeOver.isDone);
  assert.deepEqual(errors, ['the agent could not start']);
});

test('not ready before it has begun', () => {
  assert.notEqual(new TakeOver(silentLog).notReady(), undefined);
});
