import type { Container, PodSpec } from '../../kube/objects.ts';
import { hugePageOfResource } from '../../kube/huge-pages.ts';
import { quantityToMilli, quantityToNumber } from '../../kube/quantity.ts';

export type QosClass = 'Guaranteed' | 'Burstable' | 'BestEffort';

/** What CRI's LinuxContainerResources takes; zero means "not set" there. */
export interface CgroupResources {
  readonly cpuPeriodUs: number;
  readonly cpuQuotaUs: number;
  readonly cpuShares: number;
  readonly memoryLimitBytes: number;
  readonly oomScoreAdj: number;
  /** Of each size that the machine has: who asks for none may use none. */
  readonly hugePages: readonly { readonly pageBytes: number; readonly limitBytes: number }[];
}

const CPU_PERIOD_US = 100_000;
const MIN_QUOTA_US = 1_000;
const MIN_SHARES = 2;
const MAX_SHARES = 262_144;
const GUARANTEED_OOM_SCORE_ADJ = -997;
const BEST_EFFORT_OOM_SCORE_ADJ = 1_000;

function limitOf(container: Container, resource: string): string | undefined {
  return container.resources?.limits?.[resource];
}

/** A request that is not given is the limit, as the API server's defaults have it. */
function requestOf(container: Container, resource: string): string | undefined {
  return container.resources?.requests?.[resource] ?? limitOf(container, resource);
}

/** Kubernetes' quality-of-service class, from CPU and memory alone. */
export function qosClass(spec: PodSpec): QosClass {
  const containers = [...spec.containers, ...(spec.initContainers ?? [])];
  let any = false;
  let guaranteed = true;
  for (const container of containers) {
    for (const resource of ['cpu', 'memory']) {
      const limit = limitOf(container, resource);
      const request = requestOf(container, resource);
      if (isPositive(limit) || isPositive(request)) any = true;
      if (limit === undefined || request === undefined || !isPositive(limit)) guaranteed = false;
      else if (quantityToMilli(limit) !== quantityToMilli(request)) guaranteed = false;
    }
  }
  if (!any) return 'BestEffort';
  return guaranteed ? 'Guaranteed' : 'Burstable';
}

function isPositive(quantity: string | undefined): boolean {
  return quantity !== undefined && quantityToMilli(quantity) > 0;
}

/**
 * One container's cgroup values. A burstable container's OOM score says how much of the machine it asked for: the more
 * it asked for, the later it is killed, always between the guaranteed and the best-effort ones.
 */
export function cgroupResources(
  spec: PodSpec,
  container: Container,
  { memoryBytes, hugePageSizes }: { readonly memoryBytes: number; readonly hugePageSizes: readonly number[] },
): CgroupResources {
  const cpuLimit = limitOf(container, 'cpu');
  const cpuRequest = requestOf(container, 'cpu');
  const memoryLimit = limitOf(container, 'memory');
  const memoryRequest = requestOf(container, 'memory');
  const quotaUs = cpuLimit === undefined ? 0 : Math.floor((quantityToMilli(cpuLimit) * CPU_PERIOD_US) / 1000);
  const shares = cpuRequest === undefined ? MIN_SHARES : Math.floor((quantityToMilli(cpuRequest) * 1024) / 1000);
  return {
    cpuPeriodUs: quotaUs > 0 ? CPU_PERIOD_US : 0,
    cpuQuotaUs: quotaUs > 0 ? Math.max(quotaUs, MIN_QUOTA_US) : 0,
    cpuShares: Math.min(Math.max(shares, MIN_SHARES), MAX_SHARES),
    memoryLimitBytes: memoryLimit === undefined ? 0 : quantityToNumber(memoryLimit),
    oomScoreAdj: oomScoreAdj(
      qosClass(spec),
      memoryRequest === undefined ? 0 : quantityToNumber(memoryRequest),
      memoryBytes,
    ),
    hugePages: hugePageSizes.map((pageBytes) => ({ pageBytes, limitBytes: hugePageBytes(container, pageBytes) })),
  };
}

function hugePageBytes({ resources }: Container, pageBytes: number): number {
  const found = Object.entries(resources?.limits ?? {}).find(([name]) => hugePageOfResource(name) === pageBytes);
  return found === undefined ? 0 : quantityToNumber(found[1]);
}

/** Bytes of huge pages that a pod asks for, by the size of a page. */
export function podHugePages({ containers }: PodSpec): ReadonlyMap<number, number> {
  const sums = new Map<number, number>();
  for (const { resources } of containers) {
    // Requests and limits are the same.
    for (const [name, value] of Object.entries(resources?.limits ?? {})) {
      const pageBytes = hugePageOfResource(name);
      if (pageBytes !== undefined) sums.set(pageBytes, (sums.get(pageBytes) ?? 0) + quantityToNumber(value));
    }
  }
  return sums;
}

function oomScoreAdj(qos: QosClass, requestBytes: number, nodeMemoryBytes: number): number {
  if (qos === 'Guaranteed') return GUARANTEED_OOM_SCORE_ADJ;
  if (qos === 'BestEffort' || nodeMemoryBytes <= 0) return BEST_EFFORT_OOM_SCORE_ADJ;
  const adj = 1000 - Math.floor((1000 * requestBytes) / nodeMemoryBytes);
  return Math.min(Math.max(adj, 1000 + GUARANTEED_OOM_SCORE_ADJ), BEST_EFFORT_OOM_SCORE_ADJ - 1);
}

/** The pod's memory limit: the sum over its containers, or none as soon as one has none. */
export function podMemoryLimitBytes(spec: PodSpec): number | undefined {
  let sum = 0;
  for (const container of spec.containers) {
    const limit = limitOf(container, 'memory');
    if (limit === undefined || !isPositive(limit)) return undefined;
    sum += quantityToNumber(limit);
  }
  return sum;
}
