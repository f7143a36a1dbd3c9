import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Op } from '../../lib/abort.ts';
import { canceled } from '../../lib/errors.ts';
import { silentLog } from '../../lib/log.ts';
import { Slots } from './slots.ts';

const op = (signal = new AbortController().signal): Op => ({ signal, log: silentLog });
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('never more than that many at once, in order, and a failure gives its slot back', async () => {
  const slots = new Slots(2);
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
  const slots = new Slots(1);
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
