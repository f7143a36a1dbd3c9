import type { Clock, Timer } from '../../lib/clock.ts';

/** Says so when nothing has come or gone for `limitMs`. A touch costs a look at the clock. */
export class IdleWatch {
  readonly #clock: Clock;
  readonly #limitMs: number;
  readonly #idle: () => void;
  #lastMs: number;
  #timer: Timer;

  constructor(clock: Clock, limitMs: number, idle: () => void) {
    this.#clock = clock;
    this.#limitMs = limitMs;
    this.#idle = idle;
    this.#lastMs = clock.monotonicMs();
    this.#timer = this.#lookIn(limitMs);
  }

  readonly touch = (): void => {
    this.#lastMs = this.#clock.monotonicMs();
  };

  close(): void {
    this.#timer.cancel();
  }

  #lookIn(delayMs: number): Timer {
    return this.#clock.after(delayMs, () => {
      const leftMs = this.#lastMs + this.#limitMs - this.#clock.monotonicMs();
      if (leftMs > 0) this.#timer = this.#lookIn(leftMs);
      else this.#idle();
    });
  }
}
