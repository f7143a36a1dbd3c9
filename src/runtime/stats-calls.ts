import type { RuntimeService } from '../cri/services.ts';
import { containerStats, listContainerStats, type StatsContext } from './container/container-stats.ts';

/** CRI's calls about what pods use. */
export type StatsCalls = Required<Pick<RuntimeService, 'containerStats' | 'listContainerStats'>>;

export function createStatsCalls(context: StatsContext): StatsCalls {
  return {
    containerStats: (op, request) => containerStats(op, context, request),
    listContainerStats: (op, request) => listContainerStats(op, context, request),
  };
}
