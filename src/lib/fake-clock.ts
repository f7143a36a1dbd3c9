import { sleepWith, type Clock, type Timer } from './clock.ts';

interface Pending {
  readonly dueMs: number;
  readonly order: number;
  readonly fn: () => void;
}

/** A clock that stands still until a test moves it. Timers fire in the order in which they fall due. */
export class FakeClock implements Clock {
  #nowMs = 0;
  #wallOffsetMs: number;
  #order = 0;
  readonly #pending = new Set<Pending>();

  constructor(wallMs = Date.UTC(2026, 0, 1)) {
    this.#wallOffsetMs = wallMs;
  }

  wallMs(): number {
    return this.#nowMs + this.#wallOffsetMs;
  }

  monotonicMs(): number {
    return this.#nowMs;
  }

  boottimeMs(): number {
    return this.#nowMs;
  }

  /** Sets the wall clock alone forwards or back, as an administrator or NTP does. */
  stepWall(deltaMs: number): void {
    this.#wallOffsetMs += deltaMs;
  }

  after(delayMs: number, fn: () => void): Timer {
    const entry: Pending = { dueMs: this.#nowMs + Math.max(delayMs, 0), order: this.#order++, fn };
    this.#pending.add(entry);
    return { cancel: () => this.#pending.delete(entry) };
  }

  sleep(delayMs: number, signal?: AbortSignal): Promise<void> {
    return sleepWith(this, delayMs, signal);
  }

  get pendingTimers(): number {
    return this.#pending.size;
  }

  /** Moves time on, firing what falls due and letting promises settle after each timer. */
  async advance(deltaMs: number): Promise<void> {
    const endMs = this.#nowMs + deltaMs;
    await settle();
    for (;;) {
      const next = this.#next(endMs);
      if (next === undefined) break;
      this.#pending.delete(next);
      this.#nowMs = Math.max(this.#nowMs, next.dueMs);
      next.fn();
      await settle();
    }
    this.#nowMs = endMs;
    await settle();
  }

  #next(endMs: number): Pending | undefined {
    let best: Pending | undefined;
    for (const entry of this.#pending) {
      if (entry.dueMs > endMs) continue;
      if (best === undefined || entry.dueMs < best.dueMs || (entry.dueMs === best.dueMs && entry.order < best.order)) {
        best = entry;
      }
    }
    return best;
  }
}

/** Lets chains of already resolved promises run to their end. */
async function settle(): Promise<void> {
  for (let round = 0; round < 3; round++) await new Promise((resolve) => setImmediate(resolve));
}
