import type { RuntimeService } from '../cri/services.ts';
import { containerStats, listContainerStats } from './container/container-stats.ts';
import { listMetricDescriptors, listPodSandboxMetrics } from './sandbox/sandbox-metrics.ts';
import { listPodSandboxStats, podSandboxStats } from './sandbox/sandbox-stats.ts';
import type { StatsContext } from './stats-context.ts';

/** CRI's calls about what pods use. */
export type StatsCalls = Required<
  Pick<
    RuntimeService,
    | 'containerStats'
    | 'listContainerStats'
    | 'podSandboxStats'
    | 'listPodSandboxStats'
    | 'listMetricDescriptors'
    | 'listPodSandboxMetrics'
  >
>;

export function createStatsCalls(context: StatsContext): StatsCalls {
  return {
    containerStats: (op, request) => containerStats(op, context, request),
    listContainerStats: (op, request) => listContainerStats(op, context, request),
    podSandboxStats: (op, request) => podSandboxStats(op, context, request),
    listPodSandboxStats: (op, request) => listPodSandboxStats(op, context, request),
    listMetricDescriptors: () => Promise.resolve(listMetricDescriptors()),
    listPodSandboxMetrics: (op) => listPodSandboxMetrics(op, context),
  };
}
