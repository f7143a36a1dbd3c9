import type { MetricDescriptor } from '../../../cri/gen/api.ts';
import { CPU_METRICS, MEMORY_METRICS, PRESSURE_METRICS } from './cpu-and-memory.ts';
import { DISK_METRICS, LIMIT_METRICS } from './disk-and-limits.ts';
import type { MeasuredContainer } from './measured-container.ts';
import { describe, type MetricDefinition } from './metric.ts';
import { NETWORK_METRICS } from './network.ts';
import { PROCESS_METRICS } from './processes.ts';

export { NETWORK_METRICS };

/** Of a container that runs. */
export const CONTAINER_METRICS: readonly MetricDefinition<MeasuredContainer>[] = [
  ...CPU_METRICS,
  ...MEMORY_METRICS,
  ...PRESSURE_METRICS,
  ...DISK_METRICS,
  ...LIMIT_METRICS,
  ...PROCESS_METRICS,
];

/** What may be told of pods and containers: which of it is, depends on the host. */
export const METRIC_DESCRIPTORS: readonly MetricDescriptor[] = [
  ...CONTAINER_METRICS.map(describe),
  ...NETWORK_METRICS.map(describe),
];
