import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { FakeClock } from '../../lib/fake-clock.ts';
import { Deadline, graceMs } from './deadline.ts';

await test('the grace of an end', () => {
  const rows: [number | undefined, number, number][] = [
    [undefined, 30, 30_000],
    [5, 30, 5_000],
    [1, 30, 2_000],
    [undefined, 0, 2_000],
    [0, 0, 2_000],
    [0, 30, 0],
    [60, 30, 60_000],
  ];
  for (const [deletion, spec, expected] of rows) {
    assert.equal(graceMs(deletion === undefined ? undefined : { graceSeconds: deletion }, spec), expected);
  }
});

await test('a deadline only ever comes nearer', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 600_000 })), (requests) => {
      const deadline = new Deadline(new FakeClock(), 300_000);
      let before = deadline.endBoottimeMs;
      for (const request of requests) {
        deadline.shorten(request);
        assert.ok(deadline.endBoottimeMs <= before);
        before = deadline.endBoottimeMs;
      }
      deadline.close();
    }),
  );
});

await test('its signal fires when it has passed, also when it was moved', async () => {
  const clock = new FakeClock();
  const deadline = new Deadline(clock, 10_000);
  let heard = 0;
  deadline.onShortened(() => {
    heard += 1;
  });
  await clock.advance(1_000);
  assert.equal(deadline.shorten(9_800), false);
  assert.equal(deadline.shorten(3_000), true);
  await clock.advance(1_999);
  assert.equal(deadline.signal.aborted, false);
  await clock.advance(2);
  assert.equal(deadline.signal.aborted, true);
  assert.equal(heard, 1);
  assert.equal(deadline.remainingSeconds(), 0);
});
