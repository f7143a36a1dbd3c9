import type {
  LinuxPodSandboxStats,
  ListPodSandboxStatsRequest,
  ListPodSandboxStatsResponse,
  NetworkUsage,
  PodSandboxStats,
  PodSandboxStatsFilter,
  PodSandboxStatsRequest,
  PodSandboxStatsResponse,
} from '../../cri/gen/api.ts';
import { matchesLabels } from '../../cri/label-selector.ts';
import { toNanoseconds } from '../../cri/nanoseconds.ts';
import type { Op } from '../../lib/abort.ts';
import { failedPrecondition, notFound } from '../../lib/errors.ts';
import { statsOfAll } from '../container/container-stats.ts';
import { taskOf } from '../container/state.ts';
import { containersOf } from '../events/container-events.ts';
import { readOr, type StatsContext } from '../stats-context.ts';
import type { PodNetns } from '../stats/network-reader.ts';
import { criNetwork, criUsage } from '../stats/to-cri.ts';
import type { ContainerRecord } from '../store/container-record.ts';
import type { SandboxRecord } from '../store/sandbox-record.ts';
import { isReady } from './state.ts';

/** Throws NotFound, and FailedPrecondition for one that is not READY: of that nothing is left to be measured. */
export async function podSandboxStats(
  op: Op,
  context: StatsContext,
  { podSandboxId }: PodSandboxStatsRequest,
): Promise<PodSandboxStatsResponse> {
  const { sandboxes } = context.rt;
  const id = sandboxes.resolve(podSandboxId);
  const record = id === undefined ? undefined : sandboxes.get(id);
  if (record === undefined || record.status.state.kind === 'starting') {
    throw notFound(`sandbox ${podSandboxId} not found`);
  }
  if (!isReady(record.status)) throw failedPrecondition(`sandbox ${record.meta.id} is not ready: it uses nothing`);
  return { stats: await statsOf(op, context, record, containersOf(context.rt, record.meta.id)) };
}

/** Of the READY ones that the filter lets through. */
export async function listPodSandboxStats(
  op: Op,
  context: StatsContext,
  { filter }: ListPodSandboxStatsRequest,
): Promise<ListPodSandboxStatsResponse> {
  const wanted = context.rt.sandboxes.list().filter((record) => isReady(record.status) && passes(record, filter));
  const containers = bySandbox(context);
  const stats = wanted.map((record) => statsOf(op, context, record, containers.get(record.meta.id) ?? []));
  return { stats: await Promise.all(stats) };
}

/** The containers that can be seen, by their sandbox. */
export function bySandbox({ rt }: Pick<StatsContext, 'rt'>): ReadonlyMap<string, ContainerRecord[]> {
  const visible = rt.containers.list().filter(({ status }) => status.state.kind !== 'creating');
  return Map.groupBy(visible, ({ meta }) => meta.facts.sandboxId);
}

function passes({ meta }: SandboxRecord, filter: PodSandboxStatsFilter | undefined): boolean {
  return (
    filter === undefined || (meta.id.startsWith(filter.id) && matchesLabels(meta.config.labels, filter.labelSelector))
  );
}

async function statsOf(
  op: Op,
  context: StatsContext,
  record: SandboxRecord,
  containers: readonly ContainerRecord[],
): Promise<PodSandboxStats> {
  const { meta } = record;
  return {
    attributes: {
      id: meta.id,
      metadata: meta.config.metadata,
      labels: meta.config.labels,
      annotations: meta.config.annotations,
    },
    linux: await linuxStatsOf(op, context, record, containers),
    windows: undefined,
  };
}

/** All of it at once; each part that cannot be read is absent. */
async function linuxStatsOf(
  op: Op,
  context: StatsContext,
  record: SandboxRecord,
  containers: readonly ContainerRecord[],
): Promise<LinuxPodSandboxStats> {
  const { rt, meters } = context;
  const { id, facts } = record.meta;
  const ageMs = Math.max(rt.clock.wallMs() - record.status.createdAtWallMs, 0);
  const reading = `reading the cgroup of sandbox ${id}`;
  const [read, count, network, containerStats] = await Promise.all([
    readOr(op, context, reading, () => meters.cgroup(facts.cgroupPath, ageMs)),
    readOr(op, context, reading, () => meters.processes(facts.cgroupPath)),
    networkOf(op, context, record, containers),
    statsOfAll(op, context, containers),
  ]);
  const usage = read === undefined ? undefined : criUsage(read.usage, read.nanoCores);
  const timestamp = toNanoseconds(rt.clock.wallMs());
  return {
    cpu: usage?.cpu,
    memory: usage?.memory,
    io: usage?.io,
    network,
    process: count === undefined ? undefined : { timestamp, processCount: { value: BigInt(count) } },
    containers: containerStats,
  };
}

async function networkOf(
  op: Op,
  context: StatsContext,
  record: SandboxRecord,
  containers: readonly ContainerRecord[],
): Promise<NetworkUsage | undefined> {
  const netns = netnsOf(record, containers);
  if (netns === undefined) return undefined;
  const what = `reading the network counters of sandbox ${record.meta.id}`;
  const counters = await readOr(op, context, what, (limited) => context.meters.network(limited, netns));
  return counters === undefined ? undefined : criNetwork(counters, context.rt.clock.wallMs());
}

/** Undefined of a pod in the host's network: that traffic is not the pod's, and the field tells none. */
export function netnsOf({ status }: SandboxRecord, containers: readonly ContainerRecord[]): PodNetns | undefined {
  const pin = status.pins.find(({ kind }) => kind === 'net');
  if (pin === undefined) return undefined;
  const tasks = [status.infra, ...containers.map((container) => taskOf(container.status))];
  return { path: pin.path, inode: pin.inode, pids: tasks.flatMap((task) => (task === undefined ? [] : [task.pid])) };
}
