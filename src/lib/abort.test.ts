import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { childSignal, detached, raceSignal, withDeadline } from './abort.ts';
import { canceled, isKind } from './errors.ts';
import { FakeClock } from './fake-clock.ts';
import { silentLog } from './log.ts';

test('a closed child leaves its parent without listeners and without a timer', () => {
  const clock = new FakeClock();
  const parent = new AbortController();
  for (let i = 0; i < 1000; i++) {
    using child = childSignal(parent.signal, { clock, timeoutMs: 60_000, what: 'x' });
    assert.equal(child.signal.aborted, false);
  }
  assert.equal(getEventListeners(parent.signal, 'abort').length, 0);
  assert.equal(clock.pendingTimers, 0);
});

test('a deadline rejects even when the work does not listen', async () => {
  const clock = new FakeClock();
  const op = { signal: new AbortController().signal, log: silentLog };
  const work = withDeadline(op, clock, 50, 'unmount', () => new Promise(() => undefined));
  const checked = assert.rejects(work, (error) => isKind(error, 'DeadlineExceeded') && /unmount/.test(String(error)));
  await clock.advance(50);
  await checked;
});

test('undo runs although the caller is gone', async () => {
  const parent = new AbortController();
  parent.abort(canceled('client gone'));
  const ran = await detached(silentLog, new FakeClock(), 1000, 'undo', (op) => Promise.resolve(!op.signal.aborted));
  assert.equal(ran, true);
});

test('raceSignal rejects with the reason of a signal that has already fired', async () => {
  const controller = new AbortController();
  controller.abort(canceled('before'));
  await assert.rejects(raceSignal(Promise.resolve(1), controller.signal), /before/);
});
