import type { Clock, Timer } from '../../lib/clock.ts';

/** So long an answer may be on its way to the caller. On a machine that swaps it is; a kill then costs one more telling. */
const ANSWER_MS = 10_000;

/**
 * Starts whose outcome has been told a moment ago. That is noted on disk only when the answer has surely left: a daemon that is killed
 * between would have noted what nobody was told, and the next one would refuse who repeats the call. The other way round the outcome is
 * told twice, which does no harm.
 */
export class ToldStarts {
  readonly #clock: Pick<Clock, 'after'>;
  readonly #note: (id: string) => void;
  readonly #timers = new Map<string, Timer>();

  constructor(clock: Pick<Clock, 'after'>, note: (id: string) => void) {
    this.#clock = clock;
    this.#note = note;
  }

  /** For who asks this daemon it has been told from now on. */
  add(id: string): void {
    if (this.#timers.has(id)) return;
    const timer = this.#clock.after(ANSWER_MS, () => this.#settle(id));
    this.#timers.set(id, timer);
  }

  has(id: string): boolean {
    return this.#timers.has(id);
  }

  /** Notes what is outstanding. */
  close(): void {
    for (const id of [...this.#timers.keys()]) this.#settle(id);
  }

  #settle(id: string): void {
    this.#timers.get(id)?.cancel();
    this.#timers.delete(id);
    this.#note(id);
  }
}
