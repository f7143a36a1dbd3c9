import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../lib/fake-clock.ts';
import { silentLog } from '../../lib/log.ts';
import { surelyTold } from './surely-told.ts';

test('an answer reaches its caller unless that has left or is about to', () => {
  const clock = new FakeClock();
  const told = (leavesInMs: number | undefined, signal = new AbortController().signal): boolean =>
    surelyTold(
      {
        signal,
        log: silentLog,
        ...(leavesInMs === undefined ? {} : { callerLeavesWallMs: clock.wallMs() + leavesInMs }),
      },
      clock,
    );
  assert.equal(told(undefined), true, 'it waits for as long as it takes');
  assert.equal(told(120_000), true);
  assert.equal(told(1_001), true);
  assert.equal(told(1_000), false);
  assert.equal(told(-5), false);
  assert.equal(told(undefined, AbortSignal.abort()), false);
});
