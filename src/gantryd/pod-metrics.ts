import type { ContainerStats, PodSandboxStats } from '../cri/gen/api.ts';
import type { RuntimeService } from '../cri/services.ts';
import type { Op } from '../lib/abort.ts';
import { notFound } from '../lib/errors.ts';
import { rfc3339 } from '../lib/clock.ts';
import type { KubeClient } from '../kube/client.ts';
import type { Pod } from '../kube/objects.ts';
import {
  METRICS_API_VERSION,
  type ContainerMetrics,
  type PodMetrics,
  type PodMetricsRequest,
} from '../kube/pod-metrics.ts';

export interface PodMetricsDeps {
  readonly kube: Pick<KubeClient, 'get' | 'list'>;
  readonly runtime: Pick<Required<RuntimeService>, 'listPodSandboxStats'>;
}

/** The runtime's windows are about so long. */
const WINDOW = '10s';
const BYTES_PER_KIB = 1024n;
const NS_PER_MS = 1_000_000n;

/** What pods use, out of what the runtime tells of their sandboxes. See PodMetricsReader. */
export async function readPodMetrics(
  op: Op,
  { kube, runtime }: PodMetricsDeps,
  request: PodMetricsRequest,
): Promise<readonly PodMetrics[]> {
  const [pods, { stats }] = await Promise.all([
    podsAsked(op, kube, request),
    runtime.listPodSandboxStats(op, { filter: undefined }),
  ]);
  const byUid = new Map(stats.map((each) => [each.attributes?.metadata?.uid, each]));
  const found = pods.flatMap((pod) => metricsOf(pod, byUid.get(pod.metadata.uid)) ?? []);
  if (request.name !== undefined && found.length === 0) {
    throw notFound(`nothing is known yet of what pod ${request.namespace ?? ''}/${request.name} uses: it may not run`);
  }
  return found;
}

async function podsAsked(
  op: Op,
  kube: PodMetricsDeps['kube'],
  { name, namespace, labelSelector }: PodMetricsRequest,
): Promise<readonly Pod[]> {
  const where = namespace === undefined ? {} : { namespace };
  if (name !== undefined) return [await kube.get(op, 'pods', { ...where, name })];
  return (await kube.list(op, 'pods', { ...where, ...(labelSelector === undefined ? {} : { labelSelector }) })).items;
}

/** Undefined of a pod that does not run, and of one with a container of which no rate can be told yet: a part is no sum. Pure. */
export function metricsOf(pod: Pod, stats: PodSandboxStats | undefined): PodMetrics | undefined {
  const running = (stats?.linux?.containers ?? []).filter(({ cpu }) => cpu !== undefined);
  const containers = running.map(containerMetrics);
  const takenAt = running.reduce((latest, { cpu }) => maxOf(latest, cpu?.timestamp ?? 0n), 0n);
  if (containers.length === 0 || !containers.every((each) => each !== undefined)) return undefined;
  const { name, namespace, labels } = pod.metadata;
  const timestamp = rfc3339(Number(takenAt / NS_PER_MS));
  return {
    kind: 'PodMetrics',
    apiVersion: METRICS_API_VERSION,
    metadata: {
      name,
      namespace,
      ...(labels === undefined ? {} : { labels }),
      creationTimestamp: timestamp,
    },
    timestamp,
    window: WINDOW,
    containers,
  };
}

function containerMetrics({ attributes, cpu, memory }: ContainerStats): ContainerMetrics | undefined {
  const [rate, bytes] = [cpu?.usageNanoCores?.value, memory?.workingSetBytes?.value];
  if (rate === undefined || bytes === undefined) return undefined;
  const usage = { cpu: `${String(rate)}n`, memory: `${String(bytes / BYTES_PER_KIB)}Ki` };
  return { name: attributes?.metadata?.name ?? '', usage };
}

function maxOf(left: bigint, right: bigint): bigint {
  return left > right ? left : right;
}
