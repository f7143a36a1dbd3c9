import type { Clock } from '../../lib/clock.ts';

/** One look at a counter of processor time. */
export interface CpuSample {
  readonly atMs: number;
  readonly totalNs: bigint;
}

/** A window is at least so long: over less, a single turn of the scheduler would look like a load. */
export const SHORTEST_WINDOW_MS = 1_000;
/** The newest sample that is at least so old begins the window. */
const PREFERRED_WINDOW_MS = 5_000;
const KEPT = 3;
/** All that it has used counts as one window. */
const YOUNG_MS = 20_000;

const NS_PER_S = 1_000_000_000n;
const NS_PER_MS = 1_000_000;

/** Nanoseconds of processor time in a second, over the time between two looks. Undefined when they are too close, or not of one counter. */
export function nanoCores(before: CpuSample, now: CpuSample): bigint | undefined {
  const elapsedMs = now.atMs - before.atMs;
  // A counter that went back is another one's: the cgroup was made anew.
  if (elapsedMs < SHORTEST_WINDOW_MS || now.totalNs < before.totalNs) return undefined;
  return ((now.totalNs - before.totalNs) * NS_PER_S) / BigInt(Math.round(elapsedMs * NS_PER_MS));
}

/** The samples of each cgroup over the last while, by whatever the caller names it. Times are of the monotonic clock. */
export class CpuWindows {
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #samples = new Map<string, readonly CpuSample[]>();

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock;
  }

  /** Remembers a look that was taken now. */
  add(key: string, totalNs: bigint): void {
    const now = { atMs: this.#clock.monotonicMs(), totalNs };
    const earlier = this.#samples.get(key) ?? [];
    const last = earlier.at(-1);
    const isAnother = last !== undefined && last.totalNs > totalNs;
    this.#samples.set(key, [...(isAnother ? [] : earlier), now].slice(-KEPT));
  }

  /**
   * The rate up to a look that is taken now. Of what is `ageMs` old and was not looked at before, the rate since it began. Undefined until
   * there is a window.
   */
  rate(key: string, totalNs: bigint, ageMs: number): bigint | undefined {
    const now = { atMs: this.#clock.monotonicMs(), totalNs };
    const samples = this.#samples.get(key) ?? [];
    const oldEnough = samples.findLast(({ atMs }) => now.atMs - atMs >= PREFERRED_WINDOW_MS);
    const before = oldEnough ?? samples[0];
    if (before !== undefined && now.atMs - before.atMs >= SHORTEST_WINDOW_MS) return nanoCores(before, now);
    return ageMs <= YOUNG_MS ? nanoCores({ atMs: now.atMs - ageMs, totalNs: 0n }, now) : undefined;
  }

  /** Forgets all that are not named. */
  keepOnly(keys: ReadonlySet<string>): void {
    for (const key of [...this.#samples.keys()]) if (!keys.has(key)) this.#samples.delete(key);
  }
}
