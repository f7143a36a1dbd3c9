import assert from 'node:assert/strict';
import { test } from 'node:test';
import { detailV1 } from './detail-v1.ts';

/** Recorded of a busybox container on Linux 6.18, with numbers made different. */
const FILES: Readonly<Record<string, string>> = {
  'cpuacct.usage': '5500416240\n',
  'cpuacct.usage_user': '4200416240\n',
  'cpuacct.usage_sys': '1300000000\n',
  'cpuacct.stat': 'user 433\nsystem 111\n',
  'cpu.stat': 'nr_periods 60\nnr_throttled 7\nthrottled_time 2500000000\nnr_bursts 0\nburst_time 0\n',
  'cpu.shares': '512\n',
  'cpu.cfs_period_us': '100000\n',
  'cpu.cfs_quota_us': '50000\n',
  'memory.usage_in_bytes': '5459968\n',
  'memory.limit_in_bytes': '67108864\n',
  'memory.memsw.limit_in_bytes': '9223372036854771712\n',
  'memory.soft_limit_in_bytes': '9223372036854771712\n',
  'memory.kmem.usage_in_bytes': '344064\n',
  'memory.max_usage_in_bytes': '5763072\n',
  'memory.failcnt': '3\n',
  'memory.stat': 'cache 1\nswap 0\npgfault 893\npgmajfault 1\ntotal_cache 1\ntotal_pgfault 900\ntotal_pgmajfault 2\n',
  'pids.current': '4\n',
  'pids.max': 'max\n',
  'blkio.throttle.io_service_bytes_recursive':
    '254:0 Read 4096\n254:0 Write 8192\n254:0 Sync 12288\n254:0 Async 0\n254:0 Discard 0\n254:0 Total 12288\nTotal 12288\n',
  'blkio.throttle.io_serviced_recursive': '254:0 Read 1\n254:0 Write 2\n254:0 Total 3\nTotal 3\n',
  'hugetlb.2MB.usage_in_bytes': '2097152\n',
  'hugetlb.2MB.max_usage_in_bytes': '4194304\n',
};

const from = (files: Readonly<Record<string, string>>, sizes = ['2MB', '1GB']) =>
  detailV1((_controller, file) => files[file], 7, sizes);
const without = (...names: string[]) =>
  Object.fromEntries(Object.entries(FILES).filter(([name]) => !names.includes(name)));

test('what the metrics tell of a v1 cgroup', () => {
  const { usage, ...detail } = from(FILES) ?? assert.fail();
  assert.equal(usage.memory?.pageFaults, 900n);
  assert.deepEqual(detail, {
    cpu: {
      userNs: 4_200_416_240n,
      systemNs: 1_300_000_000n,
      periods: 60n,
      throttledPeriods: 7n,
      throttledNs: 2_500_000_000n,
    },
    memory: { kernel: 344_064n, peak: 5_763_072n, limitHits: 3n, ownPageFaults: 893n, ownMajorPageFaults: 1n },
    limits: { cpuShares: 512n, cpuPeriodUs: 100_000n, cpuQuotaUs: 50_000n, memory: 67_108_864n },
    pids: { tasks: 4n },
    io: [{ major: 254, minor: 0, readBytes: 4_096n, writeBytes: 8_192n, reads: 1n, writes: 2n }],
    hugepages: [{ pageSize: '2MB', bytes: 2_097_152n, peakBytes: 4_194_304n }],
  });
});

test('older kernels tell user and system time in ticks only', () => {
  const detail = from(without('cpuacct.usage_user', 'cpuacct.usage_sys'));
  assert.equal(detail?.cpu.userNs, 4_330_000_000n);
  assert.equal(detail.cpu.systemNs, 1_110_000_000n);
});

test('no quota, no limit of tasks, no input and output', () => {
  const detail = from({
    ...without('blkio.throttle.io_serviced_recursive'),
    'cpu.cfs_quota_us': '-1\n',
    'pids.max': '100\n',
    'blkio.throttle.io_service_bytes_recursive': 'Total 0\n',
  });
  assert.equal(detail?.limits.cpuQuotaUs, undefined);
  assert.deepEqual(detail?.pids, { tasks: 4n, limit: 100n });
  assert.deepEqual(detail.io, []);
});

test('no cgroup, no detail; no controller, nothing of it', () => {
  assert.equal(from({}), undefined);
  const bare = from({ 'cpuacct.usage': '1\n' }, []);
  assert.deepEqual([bare?.memory, bare?.pids, bare?.limits, bare?.hugepages], [undefined, undefined, {}, []]);
});
