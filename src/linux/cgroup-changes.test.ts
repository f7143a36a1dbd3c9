import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { cpusetChanges, orderChanges, reversed, unreclaimableBytes, type CgroupChange } from './cgroup-changes.ts';
import { resourceWrites } from './cgroup-resources.ts';
import { sharesToWeight, sharesToWeightByCurve, weightLike } from './cgroup-weight.ts';

const change = (file: string, before: string, value: string): CgroupChange => ({
  controller: file.split('.')[0] ?? '',
  path: '/c',
  file,
  before,
  value,
});

/** What the files say after each step, begun from `before`. */
function steps(all: readonly CgroupChange[], from: Readonly<Record<string, string>>): Record<string, string>[] {
  const states: Record<string, string>[] = [];
  let now: Record<string, string> = { ...from };
  for (const { path, file, value } of all) states.push((now = { ...now, [`${path}/${file}`]: value }));
  return states;
}

test('no step gives more CPU time than before or after, none puts memory above memory and swap; nor does any step back', () => {
  const us = fc.integer({ min: 1_000, max: 1_000_000 });
  const quota = fc.oneof(us, fc.constant(-1));
  const bytes = fc.integer({ min: 1, max: 1_000 });
  fc.assert(
    fc.property(us, us, quota, quota, bytes, bytes, bytes, bytes, (p1, p2, q1, q2, m1, m2, extra1, extra2) => {
      const [b1, b2] = [m1 + extra1, m2 + extra2];
      const all = [
        change('cpu.cfs_period_us', String(p1), String(p2)),
        change('cpu.cfs_quota_us', String(q1), String(q2)),
        change('memory.memsw.limit_in_bytes', String(b1), String(b2)),
        change('memory.limit_in_bytes', String(m1), String(m2)),
      ];
      const before = Object.fromEntries(all.map((one) => [`/c/${one.file}`, one.before]));
      const after = Object.fromEntries(all.map((one) => [`/c/${one.file}`, one.value]));
      const share = (state: Record<string, string>): number => {
        const time = Number(state['/c/cpu.cfs_quota_us']);
        return time < 0 ? Infinity : time / Number(state['/c/cpu.cfs_period_us']);
      };
      const most = Math.max(share(before), share(after));
      const ordered = orderChanges(all);
      const there = steps(ordered, before);
      assert.deepEqual(there.at(-1) ?? before, after);
      const back = [...there, before].flatMap((state) => steps(reversed(ordered), state));
      for (const state of [...there, ...back]) {
        assert.ok(share(state) <= most, JSON.stringify(state));
        assert.ok(Number(state['/c/memory.limit_in_bytes']) <= Number(state['/c/memory.memsw.limit_in_bytes']));
      }
      assert.deepEqual(steps(reversed(ordered), after).at(-1) ?? after, before);
    }),
  );
});

test('v1 CPU sets: a child is within its parent at every step, there and back, and nobody is left without', () => {
  const cpus = fc.uniqueArray(fc.integer({ min: 0, max: 7 }), { minLength: 1 });
  const list = (set: readonly number[]): string => [...set].sort((a, b) => a - b).join(',');
  fc.assert(
    fc.property(cpus, cpus, cpus, (own, wanted, part) => {
      const inside = part.filter((cpu) => own.includes(cpu));
      const child = inside.length === 0 ? own : inside;
      const sets = [
        { path: '/c', now: list(own) },
        { path: '/c/x', now: list(child) },
      ];
      const before = { '/c/cpuset.cpus': list(own), '/c/x/cpuset.cpus': list(child) };
      const all = orderChanges(cpusetChanges('cpuset.cpus', list(wanted), sets));
      const there = steps(all, before);
      const back = [...there, before].flatMap((state) => steps(reversed(all), state));
      for (const state of [...there, ...back]) {
        const [above, below] = ['/c/cpuset.cpus', '/c/x/cpuset.cpus'].map((key) => (state[key] ?? '').split(','));
        assert.ok(
          (below ?? []).every((cpu) => above?.includes(cpu)),
          JSON.stringify(state),
        );
        assert.notEqual(state['/c/x/cpuset.cpus'], '');
      }
      const last = there.at(-1) ?? before;
      assert.equal(last['/c/cpuset.cpus'], list(wanted));
      assert.deepEqual(steps(reversed(all), last).at(-1) ?? last, before);
    }),
  );
});

test('a set written as ranges is the same set', () => {
  assert.deepEqual(cpusetChanges('cpuset.cpus', '0,1,2', [{ path: '/c', now: '0-2' }]), []);
});

test('what changes nothing is not written', () => {
  assert.deepEqual(orderChanges([change('cpu.shares', '2', '2')]), []);
});

test('memory that cannot be taken away: not the pages of files, but those of shared memory', () => {
  const stat = 'anon 100\nfile 700\nshmem 50\nslab_reclaimable 30\n';
  assert.equal(unreclaimableBytes(1_000, stat), 320);
  assert.equal(unreclaimableBytes(100, stat), 0);
});

test('weights: as whoever made the cgroup counts', () => {
  assert.deepEqual([2, 1024, 262_144].map(sharesToWeightByCurve), [1, 100, 10_000]);
  assert.equal(weightLike(2048, { shares: 1024, weight: sharesToWeight(1024) }), sharesToWeight(2048));
  assert.equal(weightLike(2048, { shares: 1024, weight: 100 }), sharesToWeightByCurve(2048));
  assert.equal(weightLike(2048, { shares: undefined, weight: 100 }), sharesToWeight(2048));
  assert.equal(weightLike(2048, { shares: 1024, weight: 4711 }), sharesToWeight(2048));
});

test('all limits as files, on both layouts, memory last', () => {
  const all = {
    cpuShares: 1024,
    cpuPeriodUs: 50_000,
    cpusetCpus: '0-1',
    cpusetMems: '',
    hugepageLimits: [{ pageSize: '2MB', limitBytes: 4 << 20 }],
    memoryLimitBytes: 100,
    memorySwapLimitBytes: 150,
  };
  const text = (mode: 'v1' | 'v2', more: object = {}): string[] =>
    resourceWrites(mode, { ...all, ...more }).map(({ file, value }) => `${file}=${value}`);
  assert.deepEqual(text('v2', { unified: { 'memory.high': '90' } }), [
    'cpu.weight=39',
    'cpu.max=max 50000',
    'cpuset.cpus=0-1',
    'hugetlb.2MB.max=4194304',
    'memory.high=90',
    'memory.swap.max=50',
    'memory.max=100',
  ]);
  assert.deepEqual(text('v1'), [
    'cpu.shares=1024',
    'cpu.cfs_period_us=50000',
    'cpuset.cpus=0-1',
    'hugetlb.2MB.limit_in_bytes=4194304',
    'memory.memsw.limit_in_bytes=150',
    'memory.limit_in_bytes=100',
  ]);
  for (const name of ['../x', 'memory/high', 'high']) {
    assert.throws(() => resourceWrites('v2', { unified: { [name]: '1' } }), { kind: 'InvalidArgument' });
  }
  assert.throws(() => resourceWrites('v1', { unified: { 'memory.high': '1' } }), { kind: 'InvalidArgument' });
  assert.throws(() => text('v2', { memorySwapLimitBytes: 50 }), { kind: 'InvalidArgument' });
});
