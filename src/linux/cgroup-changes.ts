import type { CgroupWrite } from './cgroup-resources.ts';
import { members } from './cpu-list.ts';

/** One file of a cgroup, as it was and as it is to be. Plain data: kept where a killed process can be tidied up after. */
export interface CgroupChange extends CgroupWrite {
  /** Path of the cgroup that the file is in, which may be one below the one that is changed. */
  readonly path: string;
  readonly before: string;
}

/** Pairs of files of which the kernel checks one against the other at each write. */
const PERIOD = 'cpu.cfs_period_us';
const QUOTA = 'cpu.cfs_quota_us';
const MEMORY = 'memory.limit_in_bytes';
const MEMORY_AND_SWAP = 'memory.memsw.limit_in_bytes';

/**
 * In an order in which every step is one that the kernel takes, and so is every step of the way back: a share of CPU time is never larger
 * than the larger of the two, and memory's limit never above that of memory and swap. What changes nothing is left out.
 */
export function orderChanges(changes: readonly CgroupChange[]): CgroupChange[] {
  const wanted = changes.filter(({ before, value }) => before !== value);
  const of = (file: string): CgroupChange | undefined => wanted.find((change) => change.file === file);
  const [period, quota, memory, both] = [of(PERIOD), of(QUOTA), of(MEMORY), of(MEMORY_AND_SWAP)];
  const swapped: [CgroupChange | undefined, CgroupChange | undefined][] = [];
  // Which of the two comes first where both are there: by default as they came.
  if (period !== undefined && quota !== undefined && isLower(period)) swapped.push([period, quota]);
  if (memory !== undefined && both !== undefined && isLower(both)) swapped.push([both, memory]);
  let ordered = wanted;
  for (const [first, second] of swapped) {
    ordered = ordered.map((change) => (change === first ? second : change === second ? first : change) ?? change);
  }
  return ordered;
}

function isLower({ before, value }: CgroupChange): boolean {
  const [was, is] = [before, value].map((text) => (text === '-1' ? Infinity : Number(text)));
  return (is ?? 0) < (was ?? 0);
}

/** The way back, whatever part of the way there has been gone. */
export function reversed(changes: readonly CgroupChange[]): CgroupChange[] {
  return changes.toReversed().map((change) => ({ ...change, before: change.value, value: change.before }));
}

/**
 * The set of CPUs or memory nodes of a v1 cgroup and of those below it, each of which must stay within that of its parent: all are widened
 * from the top first, then narrowed from the bottom. `sets` has the cgroup itself first, parents before children.
 */
export function cpusetChanges(
  file: string,
  wanted: string,
  sets: readonly { readonly path: string; readonly now: string }[],
): CgroupChange[] {
  const [own] = sets;
  if (own === undefined) return [];
  const target = members(wanted);
  const was = members(own.now);
  const narrowed = sets.map(({ path, now }, i) => {
    const rest = members(now).filter((member) => target.includes(member));
    // One that had all of it goes on having all of it; one that had a part keeps what is left of it.
    const all = i === 0 || sameSet(members(now), was) || rest.length === 0;
    return { path, now, then: all ? wanted : rest.join(',') };
  });
  const change = (path: string, before: string, value: string): CgroupChange => ({
    controller: 'cpuset',
    path,
    file,
    before,
    value,
  });
  const widened = narrowed.map(({ path, now, then }) => ({
    path,
    now,
    then,
    both: [...new Set([...members(now), ...members(then)])].sort((a, b) => a - b).join(','),
  }));
  return [
    ...widened.map(({ path, now, both }) => change(path, now, sameSet(members(now), members(both)) ? now : both)),
    ...widened.toReversed().map(({ path, now, then, both }) => {
      const from = sameSet(members(now), members(both)) ? now : both;
      return change(path, from, sameSet(members(from), members(then)) ? from : then);
    }),
  ].filter(({ before, value }) => before !== value);
}

function sameSet(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((member) => b.includes(member));
}

/**
 * Bytes of a memory cgroup that no reclaiming can free: its `memory.current` without the pages of files and what the kernel's caches can
 * give up, as `memory.stat` of cgroup v2 has them. Shared memory counts as a file's there, and stays.
 */
export function unreclaimableBytes(current: number, stat: string): number {
  const of = (name: string): number => Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(stat)?.[1] ?? 0);
  return Math.max(0, current - Math.max(0, of('file') - of('shmem')) - of('slab_reclaimable'));
}
