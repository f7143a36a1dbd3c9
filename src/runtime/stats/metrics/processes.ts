import type { MeasuredContainer } from './measured-container.ts';
import { single, type MetricDefinition } from './metric.ts';

const MS_PER_S = 1000;

const secondsOf = (wallMs: number): bigint => BigInt(Math.floor(wallMs / MS_PER_S));

export const PROCESS_METRICS: readonly MetricDefinition<MeasuredContainer>[] = [
  {
    name: 'container_processes',
    help: 'Processes in the container.',
    type: 'gauge',
    values: ({ processes }) => single(BigInt(processes)),
  },
  {
    name: 'container_threads',
    help: 'Threads in the container.',
    type: 'gauge',
    values: ({ cgroup }) => single(cgroup.pids?.tasks),
  },
  {
    name: 'container_threads_max',
    help: 'How many threads may be in the container; 0: as many as the host can take.',
    type: 'gauge',
    values: ({ cgroup }) => (cgroup.pids === undefined ? [] : single(cgroup.pids.limit ?? 0n)),
  },
  {
    name: 'container_file_descriptors',
    help: 'Open files of all processes in the container.',
    type: 'gauge',
    values: ({ openFiles }) => single(openFiles.all),
  },
  {
    name: 'container_sockets',
    help: 'Open sockets of all processes in the container.',
    type: 'gauge',
    values: ({ openFiles }) => single(openFiles.sockets),
  },
  {
    name: 'container_ulimits_soft',
    help: "Soft limits of the container's first process.",
    type: 'gauge',
    labelKeys: ['ulimit'],
    values: ({ openFilesLimit }) =>
      openFilesLimit === undefined ? [] : [{ value: openFilesLimit, labels: ['max_open_files'] }],
  },
  {
    name: 'container_start_time_seconds',
    help: 'When the container was started, in seconds since the epoch.',
    type: 'gauge',
    values: ({ startedAtWallMs }) => single(secondsOf(startedAtWallMs)),
  },
  {
    name: 'container_last_seen',
    help: 'When the container was last looked at, in seconds since the epoch.',
    type: 'gauge',
    values: ({ nowWallMs }) => single(secondsOf(nowWallMs)),
  },
];
