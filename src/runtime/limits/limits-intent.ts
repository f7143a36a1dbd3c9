/** One file of a cgroup, as it was and as it is to be. */
export interface LimitChange {
  /** Of the cgroup that has the file. */
  readonly path: string;
  readonly controller: string;
  readonly file: string;
  readonly before: string;
  readonly value: string;
}

/**
 * An update that is being carried out. In the record before the first file is written: whoever finds it there does not know how far it
 * has come, and has all that he needs to finish it or to take it back.
 */
export interface LimitsIntent<Resources> {
  /** What the record will say when it is done. */
  readonly to: Resources;
  readonly changes: readonly LimitChange[];
}

const MEMORY_LIMITS: readonly string[] = ['memory.limit_in_bytes', 'memory.max'];

/**
 * Which way out of an update that was cut short is the one that takes no memory away: in the meantime the container may have begun to use what it
 * was given. Without a change of the memory limit nobody was told that it was done, so it is taken back. Pure.
 */
export function wayOut({ changes }: LimitsIntent<unknown>): 'finish' | 'take-back' {
  const memory = changes.find(({ file }) => MEMORY_LIMITS.includes(file));
  if (memory === undefined) return 'take-back';
  const [before, value] = [memory.before, memory.value].map(bytes);
  return (value ?? 0) > (before ?? 0) ? 'finish' : 'take-back';
}

function bytes(text: string): number {
  return text === 'max' || text === '-1' ? Infinity : Number(text);
}
