import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { FakeClock } from '../../lib/fake-clock.ts';
import { CpuWindows, nanoCores } from './cpu-windows.ts';

const OLD_MS = 1_000_000;
const ms = (value: number): bigint => BigInt(value) * 1_000_000n;

test('one processor for all of the time is 10^9', () => {
  assert.equal(nanoCores({ atMs: 0, totalNs: 0n }, { atMs: 2_000, totalNs: ms(2_000) }), 1_000_000_000n);
  assert.equal(nanoCores({ atMs: 0, totalNs: 5n }, { atMs: 4_000, totalNs: 5n }), 0n);
});

test('two looks at the same moment, or of two counters, tell no rate', () => {
  assert.equal(nanoCores({ atMs: 0, totalNs: 0n }, { atMs: 999, totalNs: 5n }), undefined);
  assert.equal(nanoCores({ atMs: 0, totalNs: 6n }, { atMs: 9_000, totalNs: 5n }), undefined);
});

test('a rate is what was used, whatever the window', () => {
  const load = fc.record({
    fromMs: fc.nat(1e9),
    lengthMs: fc.integer({ min: 1_000, max: 1e7 }),
    share: fc.integer({ min: 0, max: 64_000 }),
  });
  fc.assert(
    fc.property(load, ({ fromMs, lengthMs, share }) => {
      const used = (ms(lengthMs) * BigInt(share)) / 1_000n;
      const rate = nanoCores({ atMs: fromMs, totalNs: 17n }, { atMs: fromMs + lengthMs, totalNs: 17n + used });
      return rate !== undefined && rate <= BigInt(share) * 1_000_000n && rate >= BigInt(share) * 1_000_000n - 1n;
    }),
  );
});

test('the window begins at the newest look that is long enough ago', async () => {
  const clock = new FakeClock();
  const windows = new CpuWindows(clock);
  windows.add('a', 0n);
  await clock.advance(10_000);
  windows.add('a', ms(10_000));
  await clock.advance(3_000);
  // Idle since: the older look counts, as the newer one is too new.
  assert.equal(windows.rate('a', ms(10_000), OLD_MS), (10n * 1_000_000_000n) / 13n);
  await clock.advance(3_000);
  assert.equal(windows.rate('a', ms(10_000), OLD_MS), 0n);
});

test('the first look at what is old tells nothing, of what is young its whole life', async () => {
  const clock = new FakeClock();
  const windows = new CpuWindows(clock);
  assert.equal(windows.rate('a', ms(1_000), OLD_MS), undefined);
  await clock.advance(5_000);
  assert.equal(windows.rate('a', ms(1_000), 4_000), 250_000_000n);
  assert.equal(windows.rate('a', ms(1_000), 100), undefined);
});

test('a cgroup that was made anew begins anew', async () => {
  const clock = new FakeClock();
  const windows = new CpuWindows(clock);
  windows.add('a', ms(50_000));
  await clock.advance(10_000);
  windows.add('a', ms(1));
  await clock.advance(6_000);
  assert.equal(windows.rate('a', ms(3_001), OLD_MS), 500_000_000n);
});

test('what is not named any more is forgotten', async () => {
  const clock = new FakeClock();
  const windows = new CpuWindows(clock);
  windows.add('a', 0n);
  windows.add('b', 0n);
  windows.keepOnly(new Set(['b']));
  await clock.advance(6_000);
  assert.equal(windows.rate('a', ms(6_000), OLD_MS), undefined);
  assert.equal(windows.rate('b', ms(6_000), OLD_MS), 1_000_000_000n);
});
