import assert from 'node:assert/strict';
import { test } from 'node:test';
import { workingSetOf } from './cgroup-usage.ts';
import { usageV1 } from './cgroup-v1.ts';

/** Recorded of a busybox container on Linux 6.18. */
const FILES: Readonly<Record<string, string>> = {
  'cpuacct.usage': '1500416240\n',
  'memory.usage_in_bytes': '36007936\n',
  'memory.limit_in_bytes': '67108864\n',
  'memory.memsw.limit_in_bytes': '100663296\n',
  'memory.stat': `cache 33554432
rss 299008
mapped_file 4096
swap 0
pgfault 611
pgmajfault 1
inactive_file 200704
active_file 12288
hierarchical_memory_limit 67108864
hierarchical_memsw_limit 100663296
total_cache 33562624
total_rss 307200
total_mapped_file 8192
total_swap 12288
total_pgfault 640
total_pgmajfault 2
total_inactive_file 204800
total_active_file 16384
`,
};

const from = (files: Readonly<Record<string, string>>) => usageV1((_controller, file) => files[file], 7);
const without = (...names: string[]) =>
  Object.fromEntries(Object.entries(FILES).filter(([name]) => !names.includes(name)));

test('what a v1 cgroup and all below it have used', () => {
  assert.deepEqual(from(FILES), {
    takenAtWallMs: 7,
    cpu: { totalNs: 1_500_416_240n },
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
      swap: { usage: 12_288n, limit: 33_554_432n },
    },
  });
});

test('the largest number of v1 is no limit', () => {
  const unlimited = '9223372036854771712\n';
  const usage = from({ ...FILES, 'memory.limit_in_bytes': unlimited, 'memory.memsw.limit_in_bytes': unlimited });
  assert.equal(usage?.memory?.limit, undefined);
  assert.deepEqual(usage?.memory?.swap, { usage: 12_288n });
});

test('a kernel that accounts no swap tells none', () => {
  const stat = (FILES['memory.stat'] ?? '').replaceAll(/^.*swap.*\n/gm, '');
  const usage = from({ ...without('memory.memsw.limit_in_bytes'), 'memory.stat': stat });
  assert.equal(usage?.memory?.swap, undefined);
});

test('no cgroup, no usage; no memory controller, no memory', () => {
  assert.equal(from({}), undefined);
  assert.deepEqual(from({ 'cpuacct.usage': '5\n' }), { takenAtWallMs: 7, cpu: { totalNs: 5n } });
});

test('the working set is never below 0', () => {
  const memory = from({ ...FILES, 'memory.usage_in_bytes': '4096\n' })?.memory;
  assert.ok(memory !== undefined);
  assert.equal(workingSetOf(memory), 0n);
});

const LINE = 'some avg10=1.00 avg60=0.00 avg300=0.00 total=9\n';
const pressure = { some: { avg10: 1, avg60: 0, avg300: 0, totalUs: 9n } };

test('on a hybrid layout the v2 tree tells the pressure of what was put there, too', () => {
  const files = { ...FILES, 'cpu.pressure': LINE, 'memory.pressure': LINE, 'io.pressure': LINE };
  const inside = from({ ...files, 'cgroup.events': 'populated 1\nfrozen 0\n' });
  assert.deepEqual(inside?.cpu.pressure, pressure);
  assert.deepEqual(inside.memory?.pressure, pressure);
  assert.deepEqual(inside.ioPressure, pressure);
  const outside = from({ ...files, 'cgroup.events': 'populated 0\nfrozen 0\n' });
  assert.equal(outside?.cpu.pressure, undefined, 'nothing is there: 0 would be a lie');
});
