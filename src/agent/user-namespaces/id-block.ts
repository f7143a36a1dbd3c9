import { createHash } from 'node:crypto';
import { failedPrecondition, unavailable } from '../../lib/errors.ts';
import type { HostIds, IdRange } from '../../linux/host-ids.ts';

/** How many users, and as many groups, a pod with a user namespace has. */
export const IDS_PER_POD = 65_536;

/** Whose line in /etc/subuid and /etc/subgid says which ids pods may have. */
export const SUBORDINATE_NAME = 'gantry';

/** Where nothing is said: the ids that systemd keeps for containers, which no distribution gives to users. */
const CONTAINER_IDS: IdRange = { first: 0x8_0000, count: 0x6fff_0000 - 0x8_0000 };

/**
 * The first of the ids on the host that a pod's users and groups are to be. Where in the row of free blocks the search begins follows from
 * the pod's uid: two agents on one machine, which know nothing of each other's pods, hardly ever meet. Pure. Throws FailedPrecondition
 * for subordinate ids that have no room for a pod, Unavailable when all blocks are taken.
 */
export function chooseIdBlock(podUid: string, host: HostIds, used: ReadonlySet<number>): number {
  const blocks = blocksOf(host);
  const start = createHash('sha256').update(podUid).digest().readUInt32BE(0) % blocks.length;
  for (let n = 0; n < blocks.length; n++) {
    const first = blocks[(start + n) % blocks.length] ?? 0;
    if (!used.has(first) && !host.taken.some((range) => overlaps(range, first))) return first;
  }
  throw unavailable(
    `user namespaces: each of the ${String(blocks.length)} blocks of ${String(IDS_PER_POD)} ids is taken, by pods, users or subordinate ids of others`,
  );
}

function blocksOf({ granted: { uids, gids } }: HostIds): number[] {
  if (uids.length === 0 && gids.length === 0) return alignedBlocks(CONTAINER_IDS);
  // The same ids for users as for groups.
  const ofGroups = new Set(gids.flatMap(alignedBlocks));
  const both = uids.flatMap(alignedBlocks).filter((first) => ofGroups.has(first));
  if (both.length > 0) return both;
  throw failedPrecondition(
    `user namespaces: the lines of ${SUBORDINATE_NAME} in /etc/subuid and /etc/subgid have no block of ${String(IDS_PER_POD)} ids in common that begins at a multiple of it`,
  );
}

/** Never the first one: the host's own users are in it, root among them. */
function alignedBlocks({ first, count }: IdRange): number[] {
  const blocks: number[] = [];
  for (let at = Math.max(1, Math.ceil(first / IDS_PER_POD)) * IDS_PER_POD; at + IDS_PER_POD <= first + count;) {
    blocks.push(at);
    at += IDS_PER_POD;
  }
  return blocks;
}

function overlaps({ first, count }: IdRange, block: number): boolean {
  return first < block + IDS_PER_POD && block < first + count;
}
