import type { CgroupLimits, DeviceIo } from '../cgroup-detail.ts';
import type { Disk } from '../disk.ts';
import type { MeasuredContainer } from './measured-container.ts';
import { single, type MetricDefinition, type MetricValue } from './metric.ts';

function ofDisk(read: (disk: Disk) => bigint | undefined): (measured: MeasuredContainer) => readonly MetricValue[] {
  return ({ disk }) => {
    const value = disk === undefined ? undefined : read(disk);
    return disk === undefined || value === undefined ? [] : [{ value, labels: [disk.device] }];
  };
}

function ofDevices(read: (io: DeviceIo) => bigint): (measured: MeasuredContainer) => readonly MetricValue[] {
  return ({ cgroup, deviceNames }) => cgroup.io.map((io) => ({ value: read(io), labels: [nameOf(deviceNames, io)] }));
}

function nameOf(names: MeasuredContainer['deviceNames'], { major, minor }: DeviceIo): string {
  const numbers = `${String(major)}:${String(minor)}`;
  return names.get(numbers) ?? numbers;
}

export const DISK_METRICS: readonly MetricDefinition<MeasuredContainer>[] = [
  {
    name: 'container_fs_usage_bytes',
    help: 'What the container has written to its root file system, in bytes.',
    type: 'gauge',
    labelKeys: ['device'],
    values: ({ disk, writtenBytes }) =>
      disk === undefined || writtenBytes === undefined ? [] : [{ value: writtenBytes, labels: [disk.device] }],
  },
  {
    name: 'container_fs_limit_bytes',
    help: 'Size of the disk that the container writes to, in bytes.',
    type: 'gauge',
    labelKeys: ['device'],
    values: ofDisk(({ bytes }) => bytes),
  },
  {
    name: 'container_fs_inodes_total',
    help: 'How many inodes the disk has.',
    type: 'gauge',
    labelKeys: ['device'],
    values: ofDisk(({ inodes }) => inodes),
  },
  {
    name: 'container_fs_inodes_free',
    help: 'How many inodes of the disk are free.',
    type: 'gauge',
    labelKeys: ['device'],
    values: ofDisk(({ freeInodes }) => freeInodes),
  },
  {
    name: 'container_fs_reads_bytes_total',
    help: 'Bytes read from the device.',
    type: 'counter',
    labelKeys: ['device'],
    values: ofDevices(({ readBytes }) => readBytes),
  },
  {
    name: 'container_fs_reads_total',
    help: 'Reads from the device.',
    type: 'counter',
    labelKeys: ['device'],
    values: ofDevices(({ reads }) => reads),
  },
  {
    name: 'container_fs_writes_bytes_total',
    help: 'Bytes written to the device.',
    type: 'counter',
    labelKeys: ['device'],
    values: ofDevices(({ writeBytes }) => writeBytes),
  },
  {
    name: 'container_fs_writes_total',
    help: 'Writes to the device.',
    type: 'counter',
    labelKeys: ['device'],
    values: ofDevices(({ writes }) => writes),
  },
  {
    name: 'container_blkio_device_usage_total',
    help: 'Bytes that went to and from the device, by operation.',
    type: 'counter',
    labelKeys: ['device', 'major', 'minor', 'operation'],
    values: ({ cgroup, deviceNames }) =>
      cgroup.io.flatMap((io) => {
        const labels = [nameOf(deviceNames, io), String(io.major), String(io.minor)];
        return [
          { value: io.readBytes, labels: [...labels, 'Read'] },
          { value: io.writeBytes, labels: [...labels, 'Write'] },
        ];
      }),
  },
  {
    name: 'container_hugetlb_usage_bytes',
    help: 'Huge pages in use, in bytes.',
    type: 'gauge',
    labelKeys: ['pagesize'],
    values: ({ cgroup }) => cgroup.hugepages.map(({ pageSize, bytes }) => ({ value: bytes, labels: [pageSize] })),
  },
  {
    name: 'container_hugetlb_max_usage_bytes',
    help: 'The most of huge pages that was ever in use, in bytes.',
    type: 'gauge',
    labelKeys: ['pagesize'],
    values: ({ cgroup }) =>
      cgroup.hugepages.flatMap(({ pageSize, peakBytes }) =>
        peakBytes === undefined ? [] : [{ value: peakBytes, labels: [pageSize] }],
      ),
  },
];

/** A limit in bytes that is none is told as 0. */
function ofLimits(
  read: (limits: CgroupLimits) => bigint | undefined,
): (measured: MeasuredContainer) => readonly MetricValue[] {
  return ({ cgroup }) => (cgroup.usage.memory === undefined ? [] : single(read(cgroup.limits) ?? 0n));
}

export const LIMIT_METRICS: readonly MetricDefinition<MeasuredContainer>[] = [
  {
    name: 'container_spec_cpu_period',
    help: 'Period of the processor quota, in microseconds.',
    type: 'gauge',
    values: ({ cgroup }) => single(cgroup.limits.cpuPeriodUs),
  },
  {
    name: 'container_spec_cpu_quota',
    help: 'Processor time that may be used in each period, in microseconds; absent: all.',
    type: 'gauge',
    values: ({ cgroup }) => single(cgroup.limits.cpuQuotaUs),
  },
  {
    name: 'container_spec_cpu_shares',
    help: 'Share of the processors when there are not enough for all.',
    type: 'gauge',
    values: ({ cgroup }) => single(cgroup.limits.cpuShares),
  },
  {
    name: 'container_spec_memory_limit_bytes',
    help: 'Memory limit, in bytes; 0: none.',
    type: 'gauge',
    values: ofLimits(({ memory }) => memory),
  },
  {
    name: 'container_spec_memory_reservation_limit_bytes',
    help: 'Memory that is not taken away while others have more than theirs, in bytes; 0: none.',
    type: 'gauge',
    values: ofLimits(({ memoryReservation }) => memoryReservation),
  },
  {
    name: 'container_spec_memory_swap_limit_bytes',
    help: 'Limit of memory and swap together (cgroup v1) or of swap (v2), in bytes; 0: none.',
    type: 'gauge',
    values: ofLimits(({ memorySwap }) => memorySwap),
  },
];
