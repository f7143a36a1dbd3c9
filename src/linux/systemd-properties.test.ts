import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changeProperties, limitProperties } from './systemd-properties.ts';

const INFINITY = '18446744073709551615';

test('limits as properties', () => {
  assert.deepEqual(limitProperties({}), []);
  assert.deepEqual(
    limitProperties({ cpuShares: 1024, cpuQuotaUs: 50_000, cpuPeriodUs: 200_000, memoryLimitBytes: 1 << 20 }),
    [
      ['CPUWeight', 't', '39'],
      ['CPUQuotaPerSecUSec', 't', '250000'],
      ['CPUQuotaPeriodUSec', 't', '200000'],
      ['MemoryMax', 't', '1048576'],
    ],
  );
  assert.deepEqual(limitProperties({ cpuQuotaUs: -1, memoryLimitBytes: -1 }), [
    ['CPUQuotaPerSecUSec', 't', INFINITY],
    ['CPUQuotaPeriodUSec', 't', '100000'],
    ['MemoryMax', 't', INFINITY],
  ]);
});

test('changed files as properties', () => {
  const cases: [file: string, value: string, properties: string[][]][] = [
    [
      'cpu.max',
      '12345 100000',
      [
        ['CPUQuotaPerSecUSec', 't', '123500'],
        ['CPUQuotaPeriodUSec', 't', '100000'],
      ],
    ],
    [
      'cpu.max',
      'max 50000',
      [
        ['CPUQuotaPerSecUSec', 't', INFINITY],
        ['CPUQuotaPeriodUSec', 't', '50000'],
      ],
    ],
    ['cpu.weight', '77', [['CPUWeight', 't', '77']]],
    ['memory.max', 'max', [['MemoryMax', 't', INFINITY]]],
    ['memory.swap.max', '0', [['MemorySwapMax', 't', '0']]],
    ['memory.high', '5', [['MemoryHigh', 't', '5']]],
    ['memory.low', '5', [['MemoryLow', 't', '5']]],
    ['memory.min', '5', [['MemoryMin', 't', '5']]],
    ['pids.max', '9', [['TasksMax', 't', '9']]],
    ['cpuset.cpus', '0-2,9', [['AllowedCPUs', 'ay', '2', '7', '2']]],
    ['cpuset.mems', '', [['AllowedMemoryNodes', 'ay', '0']]],
    ['hugetlb.2MB.max', '0', []],
    ['memory.oom.group', '1', []],
  ];
  for (const [file, value, properties] of cases) {
    const change = { path: '/a.scope', controller: file.split('.')[0] ?? '', file, before: '', value };
    assert.deepEqual(changeProperties([change]), properties, `${file} ${value}`);
  }
});
