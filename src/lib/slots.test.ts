import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Op } from './abort.ts';
import { canceled } from './errors.ts';
import { FakeClock } from './fake-clock.ts';
import { silentLog } from './log.ts';
import { Slots } from './slots.ts';

const op = (signal = new AbortController().signal): Op => ({ signal, log: silentLog });
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('never more than that many at once, in order, and a failure gives its slot back', async () => {
  const slots = new Slots(2, { what: 'the work' });
  let running = 0;
  let most = 0;
  const order: number[] = [];
  await Promise.allSettled(
    Array.from({ length: 10 }, (_, index) =>
      slots.run(op(), async () => {
        order.push(index);
        most = Math.max(most, ++running);
        await turn();
        running--;
        if (index % 3 === 0) throw new Error('no luck');
      }),
    ),
  );
  assert.equal(most, 2);
  assert.deepEqual(order, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
});

test('one that gives up waiting takes no slot', async () => {
  const slots = new Slots(1, { what: 'the work' });
  const gate = Promise.withResolvers<undefined>();
  const first = slots.run(op(), () => gate.promise);
  const leaving = new AbortController();
  const second = slots.run(op(leaving.signal), () => Promise.resolve('second'));
  const third = slots.run(op(), () => Promise.resolve('third'));
  leaving.abort(canceled('left'));
  await assert.rejects(second, /left/);
  gate.resolve(undefined);
  await first;
  assert.equal(await third, 'third');
  assert.equal(await slots.run(op(), () => Promise.resolve('fourth')), 'fourth');
});

test('those that hang keep their slots for a while only, and give none back twice', async () => {
  const clock = new FakeClock();
  const slots = new Slots(2, { what: 'the work', hold: { clock, ms: 10_000 } });
  const gate = Promise.withResolvers<undefined>();
  const hanging = [slots.run(op(), () => gate.promise), slots.run(op(), () => gate.promise)];
  let running = 0;
  let most = 0;
  const others = Array.from({ length: 6 }, () =>
    slots.run(op(), async () => {
      most = Math.max(most, ++running);
      await clock.sleep(1_000);
      running--;
    }),
  );
  await clock.advance(9_000);
  assert.equal(most, 0);
  await clock.advance(1_500);
  assert.equal(running, 2);
  gate.resolve(undefined);
  await Promise.all(hanging);
  await clock.advance(10_000);
  await Promise.all(others);
  assert.equal(most, 2, 'those that ended late had nothing to give back');
});
