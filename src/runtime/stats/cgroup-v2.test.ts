import assert from 'node:assert/strict';
import { test } from 'node:test';
import { usageV2 } from './cgroup-v2.ts';

/** As Linux 6.12 writes them, of a container with a limit. */
const FILES: Readonly<Record<string, string>> = {
  'cpu.stat':
    'usage_usec 1500416\nuser_usec 1200000\nsystem_usec 300416\nnr_periods 12\nnr_throttled 3\nthrottled_usec 45000\n',
  'cpu.pressure':
    'some avg10=12.34 avg60=5.00 avg300=1.25 total=987654\nfull avg10=0.50 avg60=0.25 avg300=0.00 total=1234\n',
  'memory.pressure': 'some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n',
  'io.pressure': 'some avg10=0.00 avg60=0.00 avg300=0.00 total=55\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=50\n',
  'memory.current': '36007936\n',
  'memory.max': '67108864\n',
  'memory.stat':
    'anon 307200\nfile 33562624\nkernel 1200128\nfile_mapped 8192\ninactive_file 204800\nactive_file 16384\npgfault 640\npgmajfault 2\n',
  'memory.swap.current': '12288\n',
  'memory.swap.max': 'max\n',
};
const from = (files: Readonly<Record<string, string>>) => usageV2((_controller, file) => files[file], 7);

test('what a v2 cgroup has used, with the time it stood still', () => {
  const none = { avg10: 0, avg60: 0, avg300: 0 };
  assert.deepEqual(from(FILES), {
    takenAtWallMs: 7,
    cpu: {
      totalNs: 1_500_416_000n,
      pressure: {
        some: { avg10: 12.34, avg60: 5, avg300: 1.25, totalUs: 987_654n },
        full: { avg10: 0.5, avg60: 0.25, avg300: 0, totalUs: 1_234n },
      },
    },
    memory: {
      usage: 36_007_936n,
      limit: 67_108_864n,
      inactiveFile: 204_800n,
      activeFile: 16_384n,
      rss: 307_200n,
      cache: 33_562_624n,
      mappedFile: 8_192n,
      pageFaults: 640n,
      majorPageFaults: 2n,
      swap: { usage: 12_288n },
      pressure: { some: { ...none, totalUs: 0n }, full: { ...none, totalUs: 0n } },
    },
    ioPressure: { some: { ...none, totalUs: 55n }, full: { ...none, totalUs: 50n } },
  });
});

test('a kernel without pressure files or swap tells neither', () => {
  const { 'cpu.stat': cpu = '', 'memory.current': current = '', 'memory.stat': stat = '' } = FILES;
  const usage = from({ 'cpu.stat': cpu, 'memory.current': current, 'memory.stat': stat, 'memory.max': 'max\n' });
  assert.deepEqual(usage?.cpu, { totalNs: 1_500_416_000n });
  assert.equal(usage.ioPressure, undefined);
  assert.equal(usage.memory?.limit, undefined);
  assert.equal(usage.memory?.swap, undefined);
  assert.equal(usage.memory?.pressure, undefined);
});

test('older kernels tell the pressure of a processor for some only', () => {
  const usage = from({
    'cpu.stat': 'usage_usec 1\n',
    'cpu.pressure': 'some avg10=1.00 avg60=0.00 avg300=0.00 total=9\n',
  });
  assert.deepEqual(usage?.cpu.pressure, { some: { avg10: 1, avg60: 0, avg300: 0, totalUs: 9n } });
});

test('no cgroup, no usage', () => {
  assert.equal(from({}), undefined);
});
