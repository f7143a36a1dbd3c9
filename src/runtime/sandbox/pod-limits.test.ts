import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LinuxContainerResources } from '../../cri/gen/api.ts';
import { asked, podLimits } from './pod-limits.ts';

type Partial = Parameters<typeof LinuxContainerResources.fromPartial>[0];
const limits = (resources: Partial, overhead: Partial): unknown =>
  podLimits(asked(LinuxContainerResources.fromPartial(resources), LinuxContainerResources.fromPartial(overhead)));

test("a pod's limits are its containers' and its overhead", () => {
  const resources = { cpuShares: 512n, cpuQuota: 50_000n, cpuPeriod: 100_000n, memoryLimitInBytes: 100n };
  assert.deepEqual(
    limits(resources, { cpuShares: 256n, cpuQuota: 5_000n, cpuPeriod: 50_000n, memoryLimitInBytes: 7n }),
    {
      cpuShares: 768,
      cpuQuotaUs: 60_000,
      cpuPeriodUs: 100_000,
      memoryLimitBytes: 107,
    },
  );
  assert.deepEqual(limits(resources, {}), {
    cpuShares: 512,
    cpuQuotaUs: 50_000,
    cpuPeriodUs: 100_000,
    memoryLimitBytes: 100,
  });
});

test('shares are what the kernel makes of them', () => {
  assert.deepEqual(limits({ cpuShares: 1n }, {}), { cpuShares: 2 });
  assert.deepEqual(limits({ cpuShares: 262_144n }, { cpuShares: 2n }), { cpuShares: 262_144 });
});

test('what is not limited stays so, whatever the overhead', () => {
  assert.deepEqual(limits({}, { memoryLimitInBytes: 7n, cpuQuota: 5_000n }), {});
  assert.deepEqual(limits({ memoryLimitInBytes: -1n, cpuQuota: -1n }, { memoryLimitInBytes: 7n, cpuQuota: 5_000n }), {
    cpuQuotaUs: -1,
    cpuPeriodUs: 100_000,
    memoryLimitBytes: -1,
  });
});
