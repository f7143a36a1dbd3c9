import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CgroupUsage } from './cgroup-usage.ts';
import { criUsage } from './to-cri.ts';

const line = { avg10: 1.5, avg60: 0, avg300: 0, totalUs: 7n };
const USAGE: CgroupUsage = {
  takenAtWallMs: 1_700_000_000_123,
  cpu: { totalNs: 5n, pressure: { some: line } },
  memory: {
    usage: 100n,
    limit: 150n,
    inactiveFile: 30n,
    activeFile: 0n,
    rss: 40n,
    cache: 60n,
    mappedFile: 0n,
    pageFaults: 9n,
    majorPageFaults: 1n,
    swap: { usage: 10n, limit: 15n },
  },
  ioPressure: { full: line },
};

test('CRI says nanoseconds, working sets and what is left', () => {
  const timestamp = 1_700_000_000_123_000_000n;
  const psi = { Total: 7_000n, Avg10: 1.5, Avg60: 0, Avg300: 0 };
  assert.deepEqual(criUsage(USAGE, 250n), {
    cpu: {
      timestamp,
      usageCoreNanoSeconds: { value: 5n },
      usageNanoCores: { value: 250n },
      psi: { Full: undefined, Some: psi },
    },
    memory: {
      timestamp,
      workingSetBytes: { value: 70n },
      availableBytes: { value: 80n },
      usageBytes: { value: 100n },
      rssBytes: { value: 40n },
      pageFaults: { value: 9n },
      majorPageFaults: { value: 1n },
      psi: undefined,
    },
    swap: { timestamp, swapAvailableBytes: { value: 5n }, swapUsageBytes: { value: 10n } },
    io: { timestamp, psi: { Full: psi, Some: undefined } },
  });
});

test('what is not known or has no bound is absent, not 0', () => {
  const { limit, swap, ...memory } = USAGE.memory ?? assert.fail();
  assert.ok(limit !== undefined && swap !== undefined);
  const shown = criUsage({ takenAtWallMs: 1, cpu: { totalNs: 5n }, memory }, undefined);
  assert.equal(shown.cpu.usageNanoCores, undefined);
  assert.equal(shown.memory?.availableBytes, undefined);
  assert.equal(shown.swap, undefined);
  assert.equal(shown.io, undefined);
  assert.equal(criUsage({ takenAtWallMs: 1, cpu: { totalNs: 5n } }, undefined).memory, undefined);
});

test('over its limit nothing is left', () => {
  const memory = { ...(USAGE.memory ?? assert.fail()), limit: 50n };
  assert.deepEqual(criUsage({ ...USAGE, memory }, 0n).memory?.availableBytes, { value: 0n });
});
