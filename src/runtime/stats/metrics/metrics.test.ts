import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MetricType } from '../../../cri/gen/api.ts';
import { CONTAINER_METRICS, METRIC_DESCRIPTORS, NETWORK_METRICS } from './all-metrics.ts';
import type { MeasuredContainer } from './measured-container.ts';
import { evaluate, type BaseLabels } from './metric.ts';

const LABELS: BaseLabels = { pod: 'web', namespace: 'shop', container: 'app', id: 'abc', image: 'nginx:1' };
const line = { avg10: 0, avg60: 0, avg300: 0, totalUs: 2_999_999n };

const MEASURED: MeasuredContainer = {
  cgroup: {
    usage: {
      takenAtWallMs: 1,
      cpu: { totalNs: 5_999_999_999n, pressure: { some: line, full: { ...line, totalUs: 1n } } },
      memory: {
        usage: 100n,
        inactiveFile: 30n,
        activeFile: 5n,
        rss: 40n,
        cache: 60n,
        mappedFile: 6n,
        pageFaults: 9n,
        majorPageFaults: 1n,
      },
    },
    cpu: {
      userNs: 4_000_000_000n,
      systemNs: 1_999_999_999n,
      periods: 3n,
      throttledPeriods: 2n,
      throttledNs: 1_000_000_000n,
    },
    memory: { kernel: 8n, peak: 200n, limitHits: 4n, ownPageFaults: 7n, ownMajorPageFaults: 0n },
    limits: { cpuShares: 1024n, cpuPeriodUs: 100_000n },
    pids: { tasks: 4n },
    io: [{ major: 254, minor: 0, readBytes: 1n, writeBytes: 2n, reads: 3n, writes: 4n }],
    hugepages: [],
    oomKills: 1n,
  },
  processes: 2,
  openFiles: { all: 12n, sockets: 3n },
  openFilesLimit: 1024n,
  disk: { device: '/dev/vda1', bytes: 1_000n, inodes: 50n, freeInodes: 20n },
  writtenBytes: 77n,
  deviceNames: new Map([['254:0', '/dev/vda']]),
  startedAtWallMs: 10_999,
  nowWallMs: 20_001,
};

/** `name label …: value`, without the labels that all have. */
function told(measured: MeasuredContainer): string[] {
  return evaluate(CONTAINER_METRICS, measured, LABELS, 5n).map(
    ({ name, labelValues, value }) => `${[name, ...labelValues.slice(5)].join(' ')}: ${String(value?.value)}`,
  );
}

test("a metric has cAdvisor's name, its labels in the described order, and whole seconds", () => {
  const [first] = evaluate(CONTAINER_METRICS, MEASURED, LABELS, 5n);
  assert.deepEqual(first, {
    name: 'container_cpu_usage_seconds_total',
    timestamp: 5n,
    metricType: MetricType.COUNTER,
    labelValues: ['web', 'shop', 'app', 'abc', 'nginx:1', 'total'],
    value: { value: 5n },
  });
  const descriptor = METRIC_DESCRIPTORS.find(({ name }) => name === first.name);
  assert.deepEqual(descriptor?.labelKeys, ['pod', 'namespace', 'container', 'id', 'image', 'cpu']);
});

test('all that is told of a container', () => {
  const expected = `container_blkio_device_usage_total /dev/vda 254 0 Read: 1
container_blkio_device_usage_total /dev/vda 254 0 Write: 2
container_cpu_cfs_periods_total: 3
container_cpu_cfs_throttled_periods_total: 2
container_cpu_cfs_throttled_seconds_total: 1
container_cpu_system_seconds_total: 1
container_cpu_usage_seconds_total total: 5
container_cpu_user_seconds_total: 4
container_file_descriptors: 12
container_fs_inodes_free /dev/vda1: 20
container_fs_inodes_total /dev/vda1: 50
container_fs_limit_bytes /dev/vda1: 1000
container_fs_reads_bytes_total /dev/vda: 1
container_fs_reads_total /dev/vda: 3
container_fs_usage_bytes /dev/vda1: 77
container_fs_writes_bytes_total /dev/vda: 2
container_fs_writes_total /dev/vda: 4
container_last_seen: 20
container_memory_cache: 60
container_memory_failcnt: 4
container_memory_failures_total pgfault container: 7
container_memory_failures_total pgfault hierarchy: 9
container_memory_failures_total pgmajfault container: 0
container_memory_failures_total pgmajfault hierarchy: 1
container_memory_kernel_usage: 8
container_memory_mapped_file: 6
container_memory_max_usage_bytes: 200
container_memory_rss: 40
container_memory_swap: 0
container_memory_total_active_file_bytes: 5
container_memory_total_inactive_file_bytes: 30
container_memory_usage_bytes: 100
container_memory_working_set_bytes: 70
container_oom_events_total: 1
container_pressure_cpu_stalled_seconds_total: 0
container_pressure_cpu_waiting_seconds_total: 2
container_processes: 2
container_sockets: 3
container_spec_cpu_period: 100000
container_spec_cpu_shares: 1024
container_spec_memory_limit_bytes: 0
container_spec_memory_reservation_limit_bytes: 0
container_spec_memory_swap_limit_bytes: 0
container_start_time_seconds: 10
container_threads: 4
container_threads_max: 0
container_ulimits_soft max_open_files: 1024`;
  assert.deepEqual(told(MEASURED).sort(), expected.split('\n').sort());
});

test('what a host does not count is not told, and no 0 stands for it', () => {
  const { disk, openFilesLimit, writtenBytes, ...rest } = MEASURED;
  assert.ok(disk !== undefined && openFilesLimit !== undefined && writtenBytes !== undefined);
  const { memory, ...usage } = MEASURED.cgroup.usage;
  assert.ok(memory !== undefined);
  const cgroup = { usage, cpu: MEASURED.cgroup.cpu, limits: {}, io: [], hugepages: [] };
  assert.deepEqual(
    told({ ...rest, cgroup })
      .map((each) => each.split(':')[0]?.split(' ')[0])
      .filter((name) => /memory|_fs_|blkio|threads|oom|ulimits|spec/.test(name ?? '')),
    [],
  );
});

test('a device without a name is called by its numbers', () => {
  assert.ok(told({ ...MEASURED, deviceNames: new Map() }).includes('container_fs_reads_total 254:0: 3'));
});

test('each metric is described once, and every value has as many labels as its description', () => {
  const keys = new Map(METRIC_DESCRIPTORS.map(({ name, labelKeys }) => [name, labelKeys]));
  assert.equal(keys.size, METRIC_DESCRIPTORS.length);
  for (const { help } of METRIC_DESCRIPTORS) assert.notEqual(help, '');
  const counters = { bytes: 1n, packets: 2n, errors: 3n, dropped: 4n };
  const network = evaluate(NETWORK_METRICS, [{ name: 'eth0', received: counters, sent: counters }], LABELS, 5n);
  for (const { name, labelValues } of [...evaluate(CONTAINER_METRICS, MEASURED, LABELS, 5n), ...network]) {
    assert.equal(labelValues.length, keys.get(name)?.length, name);
  }
  assert.deepEqual(
    network.map(({ name, value }) => `${name}: ${String(value?.value)}`),
    ['receive', 'transmit'].flatMap((word) => [
      `container_network_${word}_bytes_total: 1`,
      `container_network_${word}_packets_total: 2`,
      `container_network_${word}_packets_dropped_total: 4`,
      `container_network_${word}_errors_total: 3`,
    ]),
  );
});
