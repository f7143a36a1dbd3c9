import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LinuxContainerResources } from '../../cri/gen/api.ts';
import { checkResources } from './check-resources.ts';

type Said = Parameters<typeof LinuxContainerResources.fromPartial>[0];

const check = (said: Said, prefix = ''): Promise<void> =>
  checkResources(
    LinuxContainerResources.fromPartial(said),
    { hostSets: () => Promise.resolve({ cpus: '0-3', mems: '0' }) },
    prefix,
  );

test('what cannot be is refused by the name of its field', async () => {
  const cases: [Said, RegExp][] = [
    [{ cpuShares: -5n }, /^cpu_shares: -5 is not 0 \(not said\) or more$/],
    [{ cpuPeriod: -1n }, /^cpu_period: -1 is not 0 \(not said\) or between 1000 and 1000000/],
    [{ cpuPeriod: 999n }, /^cpu_period: 999/],
    [{ cpuPeriod: 1_000_001n }, /^cpu_period: 1000001/],
    [{ cpuQuota: -2n }, /^cpu_quota: -2/],
    [{ cpuQuota: 999n }, /^cpu_quota: 999/],
    [{ memoryLimitInBytes: -7n }, /^memory_limit_in_bytes: -7/],
    [{ memorySwapLimitInBytes: -7n }, /^memory_swap_limit_in_bytes: -7/],
    [
      { memoryLimitInBytes: 9n, memorySwapLimitInBytes: 8n },
      /^memory_swap_limit_in_bytes: 8 is less than memory_limit/,
    ],
    [{ oomScoreAdj: 1001n }, /^oom_score_adj: 1001/],
    [{ oomScoreAdj: -1001n }, /^oom_score_adj: -1001/],
    [{ cpusetCpus: '99' }, /^cpuset_cpus: this host has no 99, only 0-3$/],
    [{ cpusetCpus: '2-5' }, /^cpuset_cpus: this host has no 4-5/],
    [{ cpusetCpus: '3-1' }, /^cpuset_cpus: "3-1" is no list of numbers/],
    [{ cpusetMems: '0,1' }, /^cpuset_mems: this host has no 1/],
  ];
  for (const [said, message] of cases) await assert.rejects(check(said), { kind: 'InvalidArgument', message });
  await assert.rejects(check({ cpuShares: -77n }, 'overhead.'), { message: /^overhead\.cpu_shares: -77/ });
});

test('zero, empty and absent say nothing; -1 is no limit; shares are bounded and not refused', async () => {
  const fine: Said[] = [
    {},
    { cpuQuota: -1n, memoryLimitInBytes: -1n, memorySwapLimitInBytes: -1n },
    { memoryLimitInBytes: 9n, memorySwapLimitInBytes: 9n },
    { memoryLimitInBytes: -1n, memorySwapLimitInBytes: 9n },
    { cpuQuota: 1_000n, cpuPeriod: 1_000n },
    { cpuPeriod: 1_000_000n, cpuShares: 1n },
    { cpuShares: 1n << 40n, oomScoreAdj: -1000n },
    { cpusetCpus: '0-3', cpusetMems: '0' },
  ];
  for (const said of fine) await check(said);
  await checkResources(undefined, { hostSets: () => Promise.reject(new Error('not asked for')) });
});
