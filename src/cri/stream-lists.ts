import type { Op } from '../lib/abort.ts';
import { Container, ContainerStats, PodSandbox, PodSandboxMetrics, PodSandboxStats } from './gen/api.ts';
import type { RuntimeService } from './services.ts';

/** How much one message of a stream carries, unless a single item is bigger: every client takes 4 MiB. */
const PART_BYTES = 1 << 20;

interface Codec<T> {
  encode(item: T): { finish(): Uint8Array };
}

export type RuntimeLists = Required<
  Pick<
    RuntimeService,
    'listPodSandbox' | 'listContainers' | 'listContainerStats' | 'listPodSandboxStats' | 'listPodSandboxMetrics'
  >
>;

type RuntimeStreams = Required<
  Pick<
    RuntimeService,
    | 'streamPodSandboxes'
    | 'streamContainers'
    | 'streamContainerStats'
    | 'streamPodSandboxStats'
    | 'streamPodSandboxMetrics'
  >
>;

/** CRI's streams of lists over the lists themselves: each item of the same answer once, in parts that fit any client's limit, then the end. */
export function runtimeStreams(lists: RuntimeLists): RuntimeStreams {
  return {
    streamPodSandboxes: async function* (op, request) {
      const { items } = await lists.listPodSandbox(op, request);
      for (const podSandboxes of inParts(op, items, PodSandbox)) yield { podSandboxes };
    },
    streamContainers: async function* (op, request) {
      const { containers: all } = await lists.listContainers(op, request);
      for (const containers of inParts(op, all, Container)) yield { containers };
    },
    streamContainerStats: async function* (op, request) {
      const { stats } = await lists.listContainerStats(op, request);
      for (const containerStats of inParts(op, stats, ContainerStats)) yield { containerStats };
    },
    streamPodSandboxStats: async function* (op, request) {
      const { stats } = await lists.listPodSandboxStats(op, request);
      for (const podSandboxStats of inParts(op, stats, PodSandboxStats)) yield { podSandboxStats };
    },
    streamPodSandboxMetrics: async function* (op, request) {
      const { podMetrics } = await lists.listPodSandboxMetrics(op, request);
      for (const podSandboxMetrics of inParts(op, podMetrics, PodSandboxMetrics)) yield { podSandboxMetrics };
    },
  };
}

/** Made one at a time: what is not sent yet costs nothing. Throws the op's reason when that fires. */
function* inParts<T>(op: Op, items: readonly T[], codec: Codec<T>): Generator<T[]> {
  let part: T[] = [];
  let bytes = 0;
  for (const item of items) {
    const size = codec.encode(item).finish().length;
    if (part.length > 0 && bytes + size > PART_BYTES) {
      op.signal.throwIfAborted();
      yield part;
      [part, bytes] = [[], 0];
    }
    part.push(item);
    bytes += size;
  }
  op.signal.throwIfAborted();
  if (part.length > 0) yield part;
}
