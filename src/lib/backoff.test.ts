import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { backoffDelayMs, CLEANUP_BACKOFF, CRASH_BACKOFF } from './backoff.ts';

test('1 s doubling to 5 min; crash back-off from 10 s', () => {
  assert.deepEqual(
    [1, 2, 3, 9, 10, 1000].map((n) => backoffDelayMs(CLEANUP_BACKOFF, n)),
    [1e3, 2e3, 4e3, 256e3, 300e3, 300e3],
  );
  assert.deepEqual(
    [0, 1, 2, 6, 7].map((n) => backoffDelayMs(CRASH_BACKOFF, n)),
    [0, 10e3, 20e3, 300e3, 300e3],
  );
});

test('never less after more failures, never above the maximum', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 5000 }), (failures) => {
      const now = backoffDelayMs(CLEANUP_BACKOFF, failures);
      const next = backoffDelayMs(CLEANUP_BACKOFF, failures + 1);
      assert.ok(next >= now && next <= CLEANUP_BACKOFF.maxMs && now >= CLEANUP_BACKOFF.initialMs);
    }),
  );
});
