import type { Clock, Timer } from '../../lib/clock.ts';

/**
 * One timer per container that is being stopped. The timer, an exit, a shorter request and a restart all do the same: they make
 * the container's next stop step happen (BEHAVIOUR.md N; no lane is ever held while waiting).
 */
export class StopDriver {
  readonly #clock: Clock;
  readonly #timers = new Map<string, Timer>();
  #closed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** `step` at the given time, in place of what was planned before. */
  planAt(id: string, boottimeMs: number, step: () => void): void {
    this.cancel(id);
    if (this.#closed) return;
    const timer = this.#clock.after(Math.max(boottimeMs - this.#clock.boottimeMs(), 0), () => {
      this.#timers.delete(id);
      step();
    });
    this.#timers.set(id, timer);
  }

  cancel(id: string): void {
    this.#timers.get(id)?.cancel();
    this.#timers.delete(id);
  }

  close(): void {
    this.#closed = true;
    for (const id of [...this.#timers.keys()]) this.cancel(id);
  }
}
