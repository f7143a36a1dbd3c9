import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SingleFlight } from './single-flight.ts';

test('who asks while it runs gets its outcome; who asks when it is over begins anew, however soon', async () => {
  const flights = new SingleFlight<number>();
  const gate = Promise.withResolvers<undefined>();
  let runs = 0;
  const run = (): Promise<number> => flights.run('a', () => gate.promise.then(() => ++runs));
  const both = Promise.all([run(), run()]);
  gate.resolve(undefined);
  assert.deepEqual(await both, [1, 1]);
  assert.equal(await run(), 2);
});

test('what fails is tried again by the next, also when it was told of', async () => {
  const flights = new SingleFlight();
  let runs = 0;
  const run = (): Promise<void> =>
    flights.run('a', (goesOn) => {
      runs++;
      const work = Promise.reject(new Error(`try ${String(runs)}`));
      goesOn(work);
      return work;
    });
  const again = run().catch(() => run());
  await assert.rejects(again, /try 2/);
});

test('what goes on after the run has given up is joined: its outcome is what the later ones get', async () => {
  const flights = new SingleFlight<string>();
  const part = Promise.withResolvers<string>();
  const run = (): Promise<string> =>
    flights.run('a', (goesOn) => {
      goesOn(part.promise);
      return Promise.reject(new Error('not done in time'));
    });
  await assert.rejects(run(), /in time/);
  const later = [run(), run()];
  part.resolve('done');
  assert.deepEqual(await Promise.all(later), ['done', 'done']);
  assert.equal(await flights.run('a', () => Promise.resolve('anew')), 'anew');
});
