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
import type { Op } from '../../lib/abort.ts';
import { notFound } from '../../lib/errors.ts';
import { readOr, type StatsContext } from '../stats-context.ts';
import type { Patience } from '../stats/layer-usage.ts';
import { criUsage, type CriUsage } from '../stats/to-cri.ts';
import type { ContainerRecord } from '../store/container-record.ts';
import { mayHaveProcess } from './state.ts';

/**
 * A call waits so long for a walk through what a container has written; then it tells what the last one found. Before the first one has
 * ended there is nothing to tell, and who asks takes a value that is missing for a failure.
 */
const PATIENCE_OF_FIRST_MS = 5_000;
const PATIENCE_OF_ONE: Patience = { patienceMs: 2_000, firstPatienceMs: PATIENCE_OF_FIRST_MS };
export const PATIENCE_OF_ALL: Patience = { patienceMs: 500, firstPatienceMs: PATIENCE_OF_FIRST_MS };

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
  return { stats: await statsOf(op, { rt, meters }, record, PATIENCE_OF_ONE) };
}

/** Of all that the filter lets through, also of those that do not run: as {@link containerStats} of each. */
export async function listContainerStats(
  op: Op,
  context: StatsContext,
  { filter }: ListContainerStatsRequest,
): Promise<ListContainerStatsResponse> {
  const wanted = context.rt.containers.list().filter((record) => passes(record, filter));
  return { stats: await statsOfAll(op, context, wanted) };
}

/** As they are told of in a list. */
export function statsOfAll(
  op: Op,
  context: StatsContext,
  records: readonly ContainerRecord[],
): Promise<ContainerStats[]> {
  return Promise.all(records.map((record) => statsOf(op, context, record, PATIENCE_OF_ALL)));
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
  patience: Patience,
): Promise<ContainerStats> {
  const { meta } = record;
  const [usage, writableLayer] = await Promise.all([
    usageOf(op, context, record),
    written(op, context, record, patience),
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
  context: StatsContext,
  { meta, status }: ContainerRecord,
): Promise<CriUsage | undefined> {
  if (!mayHaveProcess(status)) return undefined;
  const ageMs = Math.max(context.rt.clock.wallMs() - startOf({ meta, status }), 0);
  const { cgroupPath } = meta.facts;
  const what = `reading the cgroup of container ${meta.id}`;
  const read = await readOr(op, context, what, () => context.meters.cgroup(cgroupPath, ageMs));
  return read === undefined ? undefined : criUsage(read.usage, read.nanoCores);
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
  patience: Patience,
): Promise<FilesystemUsage | undefined> {
  const still = status.state.kind === 'exited';
  const use = await meters.layers.of(op, meta.id, { still, ...patience });
  if (use === undefined) return undefined;
  return {
    timestamp: toNanoseconds(use.takenAtWallMs),
    fsId: { mountpoint: rt.paths.root },
    usedBytes: { value: BigInt(use.bytes) },
    inodesUsed: { value: BigInt(use.inodes) },
  };
}
