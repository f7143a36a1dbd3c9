import type {
  ContainerStats,
  ContainerStatsFilter,
  ContainerStatsRequest,
  ContainerStatsResponse,
  FilesystemUsage,
  ListContainerStatsRequest,
  ListContainerStatsResponse,
} from '../../cri/gen/api.ts';
import { matchesLabels } from '../../cri/label-selector.ts';
import { toNanoseconds } from '../../cri/nanoseconds.ts';
import { withDeadline, type Op } from '../../lib/abort.ts';
import { kindOf, messageOf, notFound } from '../../lib/errors.ts';
import type { RuntimeContext } from '../context.ts';
import type { Meters } from '../stats/meters.ts';
import { criUsage, type CriUsage } from '../stats/to-cri.ts';
import type { ContainerRecord } from '../store/container-record.ts';
import { mayHaveProcess } from './state.ts';

/** What the calls about usage work with. */
export interface StatsContext {
  readonly rt: Pick<RuntimeContext, 'containers' | 'sandboxes' | 'clock' | 'paths' | 'log'>;
  readonly meters: Pick<Meters, 'cgroup' | 'layers'>;
}

/** One whose files cannot be read in this time is told of without them, and holds up no other. */
const READ_TIMEOUT_MS = 2_000;
/** A call waits so long for a walk through what a container has written; then it tells what the last one found. */
const PATIENCE_OF_ONE_MS = 2_000;
const PATIENCE_OF_ALL_MS = 500;

/** Of one that does not run: what it has written, and no more. Throws NotFound. */
export async function containerStats(
  op: Op,
  { rt, meters }: StatsContext,
  { containerId }: ContainerStatsRequest,
): Promise<ContainerStatsResponse> {
  const id = rt.containers.resolve(containerId);
  const record = id === undefined ? undefined : rt.containers.get(id);
  if (record === undefined || record.status.state.kind === 'creating') {
    throw notFound(`container ${containerId} not found`);
  }
  return { stats: await statsOf(op, { rt, meters }, record, PATIENCE_OF_ONE_MS) };
}

/** Of all that the filter lets through, also of those that do not run: as {@link containerStats} of each. */
export async function listContainerStats(
  op: Op,
  context: StatsContext,
  { filter }: ListContainerStatsRequest,
): Promise<ListContainerStatsResponse> {
  const wanted = context.rt.containers.list().filter((record) => passes(record, filter));
  return { stats: await Promise.all(wanted.map((record) => statsOf(op, context, record, PATIENCE_OF_ALL_MS))) };
}

function passes({ meta, status }: ContainerRecord, filter: ContainerStatsFilter | undefined): boolean {
  if (status.state.kind === 'creating') return false;
  if (filter === undefined) return true;
  return (
    meta.id.startsWith(filter.id) &&
    meta.facts.sandboxId.startsWith(filter.podSandboxId) &&
    matchesLabels(meta.config.labels, filter.labelSelector)
  );
}

async function statsOf(
  op: Op,
  context: StatsContext,
  record: ContainerRecord,
  patienceMs: number,
): Promise<ContainerStats> {
  const { meta } = record;
  const [usage, writableLayer] = await Promise.all([
    usageOf(op, context, record),
    written(op, context, record, patienceMs),
  ]);
  return {
    attributes: {
      id: meta.id,
      metadata: meta.config.metadata,
      labels: meta.config.labels,
      annotations: meta.config.annotations,
    },
    cpu: usage?.cpu,
    memory: usage?.memory,
    swap: usage?.swap,
    io: usage?.io,
    writableLayer,
  };
}

/** Undefined of one that does not run, and of one that cannot be read now. */
async function usageOf(
  op: Op,
  { rt, meters }: StatsContext,
  { meta, status }: ContainerRecord,
): Promise<CriUsage | undefined> {
  if (!mayHaveProcess(status)) return undefined;
  const ageMs = Math.max(rt.clock.wallMs() - startOf({ meta, status }), 0);
  const what = `reading the cgroup of container ${meta.id}`;
  try {
    const read = await withDeadline(op, rt.clock, READ_TIMEOUT_MS, what, () =>
      meters.cgroup(meta.facts.cgroupPath, ageMs),
    );
    return read === undefined ? undefined : criUsage(read.usage, read.nanoCores);
  } catch (error) {
    op.signal.throwIfAborted();
    rt.log.warn({ containerId: meta.id, errKind: kindOf(error), error: messageOf(error) }, 'usage could not be read');
    return undefined;
  }
}

function startOf({ status }: ContainerRecord): number {
  const { state } = status;
  if (state.kind === 'running') return state.startedAtWallMs;
  return state.kind === 'unknown' ? state.was.startedAtWallMs : status.createdAtWallMs;
}

async function written(
  op: Op,
  { rt, meters }: StatsContext,
  { meta, status }: ContainerRecord,
  patienceMs: number,
): Promise<FilesystemUsage | undefined> {
  const still = status.state.kind === 'exited';
  const use = await meters.layers.of(op, meta.id, { still, patienceMs });
  if (use === undefined) return undefined;
  return {
    timestamp: toNanoseconds(use.takenAtWallMs),
    fsId: { mountpoint: rt.paths.root },
    usedBytes: { value: BigInt(use.bytes) },
    inodesUsed: { value: BigInt(use.inodes) },
  };
}
