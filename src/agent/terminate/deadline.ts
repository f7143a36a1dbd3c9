import type { Clock, Timer } from '../../lib/clock.ts';
import type { PodDeletion } from '../pods/node-pod.ts';

/** Shorter ends are not given, unless somebody says "at once" (BEHAVIOUR.md C7, 78). */
export const MINIMUM_GRACE_MS = 2_000;

/**
 * How long a pod's end may take as a whole, hooks included: what the deletion says, else what the pod says, never below
 * the minimum. Grace 0 of a deletion, where the pod itself does not say 0, is "at once".
 */
export function graceMs(deletion: Pick<PodDeletion, 'graceSeconds'> | undefined, specSeconds: number): number {
  if (deletion?.graceSeconds === 0 && specSeconds !== 0) return 0;
  return Math.max((deletion?.graceSeconds ?? specSeconds) * 1000, MINIMUM_GRACE_MS);
}

/**
 * One point in time at which everything of a pod has to be over, on CLOCK_BOOTTIME. It can come nearer and never moves away
 * (FAILURES.md row 24).
 */
export class Deadline {
  readonly #clock: Clock;
  readonly #passed = new AbortController();
  readonly #listeners = new Set<() => void>();
  #endMs: number;
  #timer: Timer | undefined;

  constructor(clock: Clock, endBoottimeMs: number) {
    this.#clock = clock;
    this.#endMs = endBoottimeMs;
    this.#arm();
  }

  get endBoottimeMs(): number {
    return this.#endMs;
  }

  remainingMs(): number {
    return Math.max(0, this.#endMs - this.#clock.boottimeMs());
  }

  /** CRI's unit. Rounded up, so that a second of grace is one; 0 only when nothing is left. */
  remainingSeconds(): number {
    return Math.ceil(this.remainingMs() / 1000);
  }

  /** Fires when it has passed. */
  get signal(): AbortSignal {
    return this.#passed.signal;
  }

  /** Answers whether that made it shorter. */
  shorten(endBoottimeMs: number): boolean {
    // A request says whole seconds and is read a moment later: the same request again is no shorter one.
    if (endBoottimeMs > this.#endMs - 500) return false;
    this.#endMs = endBoottimeMs;
    this.#arm();
    for (const listener of this.#listeners) listener();
    return true;
  }

  onShortened(listener: () => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => this.#listeners.delete(listener) };
  }

  close(): void {
    this.#timer?.cancel();
  }

  #arm(): void {
    this.#timer?.cancel();
    this.#timer = this.#clock.after(this.remainingMs(), () => {
      this.#passed.abort(new Error('the grace period is over'));
    });
  }
}
