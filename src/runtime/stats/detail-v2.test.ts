import assert from 'node:assert/strict';
import { test } from 'node:test';
import { detailV2 } from './detail-v2.ts';

/** As Linux 6.12 writes them, of a container with limits. */
const FILES: Readonly<Record<string, string>> = {
  'cpu.stat':
    'usage_usec 5500416\nuser_usec 4200000\nsystem_usec 1300416\nnr_periods 60\nnr_throttled 7\nthrottled_usec 2500000\n',
  'cpu.weight': '20\n',
  'cpu.max': '50000 100000\n',
  'memory.current': '5459968\n',
  'memory.max': '67108864\n',
  'memory.min': '0\n',
  'memory.swap.current': '0\n',
  'memory.swap.max': '0\n',
  'memory.peak': '5763072\n',
  'memory.events': 'low 0\nhigh 0\nmax 3\noom 0\noom_kill 0\noom_group_kill 0\n',
  'memory.stat': 'anon 1\nfile 2\nkernel 344064\npgfault 900\npgmajfault 2\n',
  'pids.current': '4\n',
  'pids.max': '100\n',
  'io.stat': '254:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n254:16 \n',
  'hugetlb.2MB.current': '2097152\n',
};

const from = (files: Readonly<Record<string, string>>) =>
  detailV2((_controller, file) => files[file], 7, ['2MB', '1GB']);

test('what the metrics tell of a v2 cgroup', () => {
  const { usage, ...detail } = from(FILES) ?? assert.fail();
  assert.equal(usage.cpu.totalNs, 5_500_416_000n);
  assert.deepEqual(detail, {
    cpu: {
      userNs: 4_200_000_000n,
      systemNs: 1_300_416_000n,
      periods: 60n,
      throttledPeriods: 7n,
      throttledNs: 2_500_000_000n,
    },
    memory: { kernel: 344_064n, peak: 5_763_072n, limitHits: 3n, ownPageFaults: 900n, ownMajorPageFaults: 2n },
    limits: {
      cpuShares: 500n,
      cpuPeriodUs: 100_000n,
      cpuQuotaUs: 50_000n,
      memory: 67_108_864n,
      memoryReservation: 0n,
      memorySwap: 0n,
    },
    pids: { tasks: 4n, limit: 100n },
    io: [
      { major: 254, minor: 0, readBytes: 4_096n, writeBytes: 8_192n, reads: 1n, writes: 2n },
      { major: 254, minor: 16, readBytes: 0n, writeBytes: 0n, reads: 0n, writes: 0n },
    ],
    hugepages: [{ pageSize: '2MB', bytes: 2_097_152n }],
  });
});

test('`max` is no limit', () => {
  const limits = { 'cpu.max': 'max 100000\n', 'memory.max': 'max\n', 'memory.swap.max': 'max\n', 'pids.max': 'max\n' };
  const detail = from({ ...FILES, ...limits });
  assert.deepEqual(detail?.limits, { cpuShares: 500n, cpuPeriodUs: 100_000n, memoryReservation: 0n });
  assert.deepEqual(detail.pids, { tasks: 4n });
});

test('the ends of the scale of weights are the ends of that of shares', () => {
  assert.equal(from({ ...FILES, 'cpu.weight': '1\n' })?.limits.cpuShares, 2n);
  assert.equal(from({ ...FILES, 'cpu.weight': '10000\n' })?.limits.cpuShares, 262_144n);
});

test('no cgroup, no detail', () => {
  assert.equal(from({}), undefined);
});
