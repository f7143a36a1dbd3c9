import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LinuxContainerResources } from '../../cri/gen/api.ts';
import type { ResourcesInput } from '../oci/container-spec-input.ts';
import { limitsOf, mergeResources, resourcesInput, shownResources } from './resources.ts';

const resources = (partial: Parameters<typeof LinuxContainerResources.fromPartial>[0]): LinuxContainerResources =>
  LinuxContainerResources.fromPartial(partial);
const host = {
  cgroupMode: 'v2',
  swapAccounting: true,
  hugePageSizes: ['2MB'],
  oomScoreAdj: 0,
  mayLowerOomScoreAdj: true,
} as const;

const MADE = resources({
  cpuShares: 512n,
  cpuQuota: 20_000n,
  cpuPeriod: 100_000n,
  memoryLimitInBytes: 1n << 40n,
  oomScoreAdj: 3n,
  hugepageLimits: [{ pageSize: '2MB', limit: 0n }],
});

test('what is shown is what was asked for', () => {
  const all = resources({ ...MADE, cpusetCpus: '0', cpusetMems: '0', unified: { 'memory.high': 'max' } });
  assert.deepEqual(shownResources(resourcesInput(all)), all);
});

test('shares are what the kernel makes of them', () => {
  const shares = (cpuShares: bigint): number | undefined => resourcesInput(resources({ cpuShares })).cpuShares;
  assert.deepEqual([0n, 1n, 2n, 262_144n, 1n << 40n].map(shares), [0, 2, 2, 262_144, 262_144]);
});

test('what an update does not say stays', () => {
  const now = resourcesInput(MADE);
  const changed = mergeResources(now, resources({ cpuQuota: -1n, unified: { 'memory.high': '5' } }));
  assert.deepEqual(changed, { ...now, cpuQuotaUs: -1, unified: { 'memory.high': '5' } });
  assert.deepEqual(mergeResources(changed, resources({ unified: { 'memory.low': '1' } })).unified, {
    'memory.high': '5',
    'memory.low': '1',
  });
  assert.deepEqual(mergeResources(now, resources({})), { ...now, unified: {} });
});

test('what cannot be updated is refused, and never dropped', () => {
  const now = resourcesInput(MADE);
  const pages = mergeResources(now, resources({ hugepageLimits: [{ pageSize: '2MB', limit: 1n }] }));
  assert.throws(() => limitsOf({ ...host, hugePageSizes: [] }, pages, now), { kind: 'FailedPrecondition' });
  const none = (pageSize: string) => ({ hugepageLimits: [{ pageSize, limitBytes: 0 }] });
  assert.deepEqual(limitsOf(host, none('2MB')), none('2MB'));
  assert.deepEqual(limitsOf(host, none('3MB')), {});
  assert.throws(() => limitsOf(host, { hugepageLimits: [{ pageSize: '3MB', limitBytes: 1 }] }), {
    kind: 'FailedPrecondition',
    message: /huge pages of 3MB: this host can limit 2MB/,
  });
  const unified = mergeResources(now, resources({ unified: { 'memory.high': '5' } }));
  assert.throws(() => limitsOf({ ...host, cgroupMode: 'hybrid' }, unified, now), { kind: 'InvalidArgument' });
});

test('oom_score_adj: from what the processes were given to what they are to have', () => {
  const now = resourcesInput(MADE);
  const of = (oomScoreAdj: bigint, more: object = {}, had: ResourcesInput = now): unknown =>
    limitsOf({ ...host, ...more }, mergeResources(now, resources({ oomScoreAdj })), had).oomScoreAdj;
  assert.deepEqual(of(4n), { from: 3, to: 4 });
  assert.equal(of(3n), undefined);
  assert.equal(of(0n), undefined);
  assert.deepEqual(of(-997n, { oomScoreAdj: 1, mayLowerOomScoreAdj: false }), { from: 3, to: 1 });
  assert.deepEqual(of(4n, { oomScoreAdj: 2 }, {}), { from: 2, to: 4 });
});

test('limits of the cgroup: what is said, and what this host can', () => {
  const now = resourcesInput(MADE);
  assert.deepEqual(limitsOf({ ...host, hugePageSizes: [] }, now, now), {
    cpuShares: 512,
    cpuQuotaUs: 20_000,
    cpuPeriodUs: 100_000,
    memoryLimitBytes: 2 ** 40,
  });
  const swap = { ...now, memorySwapLimitBytes: 7 };
  assert.equal(limitsOf(host, swap, now).memorySwapLimitBytes, 7);
  assert.equal(limitsOf({ ...host, swapAccounting: false }, swap, now).memorySwapLimitBytes, undefined);
});
