import type {
  ContainerMetrics,
  ListMetricDescriptorsResponse,
  ListPodSandboxMetricsResponse,
  Metric,
  PodSandboxMetrics,
} from '../../cri/gen/api.ts';
import { toNanoseconds } from '../../cri/nanoseconds.ts';
import type { Op } from '../../lib/abort.ts';
import { Slots } from '../../lib/slots.ts';
import { PATIENCE_OF_ALL } from '../container/container-stats.ts';
import { readOr, type StatsContext } from '../stats-context.ts';
import { CONTAINER_METRICS, METRIC_DESCRIPTORS, NETWORK_METRICS } from '../stats/metrics/all-metrics.ts';
import type { MeasuredContainer } from '../stats/metrics/measured-container.ts';
import { evaluate, type BaseLabels } from '../stats/metrics/metric.ts';
import type { ContainerRecord } from '../store/container-record.ts';
import type { SandboxRecord } from '../store/sandbox-record.ts';
import { bySandbox, netnsOf } from './sandbox-stats.ts';
import { isReady } from './state.ts';

/** Counting open files takes many small reads: a few containers at a time leave room for others. */
const AT_ONCE = 8;

export function listMetricDescriptors(): ListMetricDescriptorsResponse {
  return { descriptors: [...METRIC_DESCRIPTORS] };
}

/** Of the READY sandboxes: their network, and the containers that run in them. */
export async function listPodSandboxMetrics(op: Op, context: StatsContext): Promise<ListPodSandboxMetricsResponse> {
  const ready = context.rt.sandboxes.list().filter(({ status }) => isReady(status));
  const containers = bySandbox(context);
  const turns = new Slots(AT_ONCE, { what: 'being measured' });
  const metricsOf = async (record: SandboxRecord): Promise<PodSandboxMetrics> => {
    const own = containers.get(record.meta.id) ?? [];
    const [metrics, ofContainers] = await Promise.all([
      networkMetrics(op, context, record, own),
      Promise.all(own.map((each) => containerMetrics(op, context, record, each, turns))),
    ]);
    const containerMetricsFound = ofContainers.filter((found) => found !== undefined);
    return { podSandboxId: record.meta.id, metrics, containerMetrics: containerMetricsFound };
  };
  return { podMetrics: await Promise.all(ready.map(metricsOf)) };
}

async function networkMetrics(
  op: Op,
  context: StatsContext,
  record: SandboxRecord,
  containers: readonly ContainerRecord[],
): Promise<Metric[]> {
  const netns = netnsOf(record, containers);
  if (netns === undefined) return [];
  const what = `reading the network counters of sandbox ${record.meta.id}`;
  const counters = await readOr(op, context, what, (limited) => context.meters.network(limited, netns));
  const labels = { ...podLabels(record), container: '', id: record.meta.id, image: '' };
  return evaluate(NETWORK_METRICS, counters ?? [], labels, toNanoseconds(context.rt.clock.wallMs()));
}

/** Undefined of one that does not run. */
async function containerMetrics(
  op: Op,
  context: StatsContext,
  sandbox: SandboxRecord,
  { meta, status }: ContainerRecord,
  turns: Slots,
): Promise<ContainerMetrics | undefined> {
  const { state } = status;
  if (state.kind !== 'running') return undefined;
  const { meters } = context;
  const written = await meters.layers.of(op, meta.id, { still: false, ...PATIENCE_OF_ALL });
  const measure = (): Promise<MeasuredContainer | undefined> =>
    meters.container({
      cgroupPath: meta.facts.cgroupPath,
      pid: state.task.pid,
      startedAtWallMs: state.startedAtWallMs,
      ...(written === undefined ? {} : { writtenBytes: written.bytes }),
    });
  const measured = await turns.run(op, () => readOr(op, context, `measuring container ${meta.id}`, measure));
  if (measured === undefined) return undefined;
  const labels: BaseLabels = {
    ...podLabels(sandbox),
    container: meta.config.metadata?.name ?? '',
    id: meta.id,
    image: meta.facts.image.shown,
  };
  const timestamp = toNanoseconds(measured.nowWallMs);
  return { containerId: meta.id, metrics: evaluate(CONTAINER_METRICS, measured, labels, timestamp) };
}

function podLabels({ meta }: SandboxRecord): Pick<BaseLabels, 'pod' | 'namespace'> {
  return { pod: meta.config.metadata?.name ?? '', namespace: meta.config.metadata?.namespace ?? '' };
}
