import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeCgroups } from './cgroup-host.ts';
import { resourceWrites } from './cgroup-resources.ts';
import { sharesToWeight } from './cgroup-weight.ts';
import { parseMountinfo } from './mountinfo.ts';

const V1 = ['cpu,cpuacct', 'memory', 'pids', 'freezer', 'name=systemd']
  .map((names, i) => `${String(i)} 1 0:${String(i)} / /cg/${names} rw - cgroup cgroup rw,xattr,${names}`)
  .join('\n');
const V2 = '90 1 0:90 / /cg/unified rw - cgroup2 cgroup2 rw,nsdelegate';

test('one tree, a tree per controller, both', () => {
  const v2 = describeCgroups(parseMountinfo(V2), () => ['cpu', 'memory', 'pids']);
  assert.deepEqual([v2.mode, v2.v1, v2.unusable], ['v2', [], undefined]);
  const v1 = describeCgroups(parseMountinfo(V1), () => []);
  assert.deepEqual([v1.mode, v1.unified, v1.unusable], ['v1', undefined, undefined]);
  assert.deepEqual(v1.v1[0], { mountPoint: '/cg/cpu,cpuacct', controllers: ['cpu', 'cpuacct'] });
  assert.deepEqual(v1.v1[4]?.controllers, ['name=systemd']);
  assert.equal(describeCgroups(parseMountinfo(`${V1}\n${V2}`), () => ['hugetlb']).mode, 'hybrid');
  const systemd = '80 1 0:80 / /cg/systemd rw - cgroup cgroup rw,name=systemd';
  assert.equal(describeCgroups(parseMountinfo(`${systemd}\n${V2}`), () => ['cpu', 'memory', 'pids']).mode, 'v2');
});

test('why they cannot be used', () => {
  assert.match(describeCgroups([], () => []).unusable ?? '', /no cgroup file system/);
  assert.match(describeCgroups(parseMountinfo(V2), () => ['cpu', 'pids']).unusable ?? '', /missing: memory/);
  const readOnly = V2.replace(' rw -', ' ro -');
  assert.match(describeCgroups(parseMountinfo(readOnly), () => ['cpu', 'memory', 'pids']).unusable ?? '', /read-only/);
});

test('limits as files', () => {
  const all = { cpuShares: 1024, cpuQuotaUs: 50_000, memoryLimitBytes: -1 };
  assert.deepEqual(
    resourceWrites('v2', all).map(({ file, value }) => `${file}=${value}`),
    ['cpu.weight=39', 'cpu.max=50000 100000', 'memory.max=max'],
  );
  assert.deepEqual(
    resourceWrites('hybrid', all).map(({ file, value }) => `${file}=${value}`),
    ['cpu.shares=1024', 'cpu.cfs_period_us=100000', 'cpu.cfs_quota_us=50000', 'memory.limit_in_bytes=-1'],
  );
  assert.deepEqual([sharesToWeight(2), sharesToWeight(262_144), sharesToWeight(0)], [1, 10_000, 1]);
});
