import { canceled } from '../../src/lib/errors.ts';
import { sleepWith, type Clock, type Timer } from '../../src/lib/clock.ts';
import type { Random } from '../soak/random.ts';

/** One process of the daemon. Nothing that it asked for is answered, and none of its timers fires, once it is dead. */
export interface Life {
  readonly number: number;
  dead: boolean;
}

export interface Asked {
  /** `unmount`, `delete: oci` … */
  readonly what: string;
  /** Whose it is: a container's or sandbox's id; empty: nobody's. */
  readonly subject: string;
  /** An abort ends the wait; the thing itself may be done all the same. */
  readonly signal?: AbortSignal;
  /** The answer comes within this time, unless it is held. */
  readonly withinMs?: number;
  /** Of several with the same line only the oldest can be next. */
  readonly line?: string;
}

interface Wish extends Asked {
  readonly life: Life | undefined;
  latestMs: number;
  held: boolean;
  carryOut(): void;
  giveUp(): void;
}

interface Due {
  readonly dueMs: number;
  readonly life: Life | undefined;
  readonly fn: () => void;
}

/** What happens to a thing that was asked for, decided in the moment in which it would be done. */
export type Fate = 'done' | 'failed' | 'failed-after' | { readonly heldUntilMs: number; readonly stubborn: boolean };

export interface ScheduleDeps {
  readonly random: Random;
  decide(asked: Asked): Fate;
  fail(asked: Asked): Error;
  trace(line: () => string): void;
}

const SOON_MS = 50;

/**
 * Everything that somebody waits for in a simulated world: answers and timers. A seed picks which comes next, so that each
 * order in which a real machine might do things comes up some time. Time moves only between two picks, and never past the
 * moment by which an answer has to be there.
 */
export class Schedule {
  readonly #deps: ScheduleDeps;
  readonly #wishes: Wish[] = [];
  #timers: Due[] = [];
  #nowMs = 0;
  #wallOffsetMs = Date.UTC(2026, 0, 1);

  constructor(deps: ScheduleDeps) {
    this.#deps = deps;
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  wallMs(): number {
    return this.#nowMs + this.#wallOffsetMs;
  }

  stepWall(deltaMs: number): void {
    this.#wallOffsetMs += deltaMs;
  }

  clockOf(life: Life): Clock {
    const clock: Clock = {
      wallMs: () => this.wallMs(),
      monotonicMs: () => this.#nowMs,
      boottimeMs: () => this.#nowMs,
      after: (delayMs, fn) => this.after(delayMs, fn, life),
      sleep: (delayMs, signal) => sleepWith(clock, delayMs, signal),
    };
    return clock;
  }

  after(delayMs: number, fn: () => void, life?: Life): Timer {
    const due: Due = { dueMs: this.#nowMs + Math.max(delayMs, 0), life, fn };
    if (life?.dead !== true) {
      let at = this.#timers.length;
      while (at > 0 && (this.#timers[at - 1]?.dueMs ?? 0) > due.dueMs) at--;
      this.#timers.splice(at, 0, due);
    }
    return {
      cancel: () => {
        const at = this.#timers.indexOf(due);
        if (at >= 0) this.#timers.splice(at, 1);
      },
    };
  }

  pause(delayMs: number): Promise<void> {
    return new Promise((resolve) => this.after(delayMs, resolve));
  }

  /** Has `effect` happen some time from now on, in the world. `life` undefined: by the world itself. */
  ask<T>(life: Life | undefined, asked: Asked, effect: () => T): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    // A dead process does nothing any more.
    if (life?.dead === true) return promise;
    let given = false;
    const { signal } = asked;
    const onAbort = (): void => {
      if (given) return;
      // It may have been done just before.
      const at = this.#wishes.indexOf(wish);
      if (at >= 0) this.#wishes.splice(at, 1);
      if (!wish.held && this.#deps.random.chance(0.5)) quietly(effect);
      const reason: unknown = signal?.reason;
      reject(reason instanceof Error ? reason : canceled('canceled'));
    };
    const wish: Wish = {
      ...asked,
      life,
      latestMs: this.#nowMs + (asked.withinMs ?? SOON_MS),
      held: false,
      carryOut: () => {
        const fate = life === undefined || wish.held ? 'done' : this.#deps.decide(asked);
        if (typeof fate === 'object') {
          this.#hold(wish, fate.heldUntilMs);
          if (fate.stubborn) signal?.removeEventListener('abort', onAbort);
          return;
        }
        this.#deps.trace(() => `${asked.what} ${asked.subject}${fate === 'done' ? '' : `: ${fate}`}`);
        this.#wishes.splice(this.#wishes.indexOf(wish), 1);
        given = true;
        signal?.removeEventListener('abort', onAbort);
        try {
          const value = fate === 'failed' ? undefined : effect();
          if (fate === 'done') resolve(value as T);
          else reject(this.#deps.fail(asked));
        } catch (error) {
          reject(error);
        }
      },
      giveUp: () => {
        if (!wish.held && this.#deps.random.chance(0.5)) quietly(effect);
      },
    };
    if (signal?.aborted === true) {
      onAbort();
      return promise;
    }
    signal?.addEventListener('abort', onAbort, { once: true });
    this.#wishes.push(wish);
    return promise;
  }

  #hold(wish: Wish, untilMs: number): void {
    this.#deps.trace(() => `${wish.what} ${wish.subject}: hangs until ${String(untilMs)}`);
    wish.held = true;
    wish.latestMs = Infinity;
    this.after(untilMs - this.#nowMs, () => {
      if (this.#wishes.includes(wish)) wish.carryOut();
    });
  }

  /** Ends a process at this very moment. What it had asked for may still be done, or not; nobody is told. */
  kill(life: Life): void {
    life.dead = true;
    const brokenLines = new Set<string>();
    for (const wish of this.#wishes.filter((one) => one.life === life)) {
      this.#wishes.splice(this.#wishes.indexOf(wish), 1);
      if (wish.line === undefined) wish.giveUp();
      else if (!brokenLines.has(wish.line)) {
        if (this.#deps.random.chance(0.5)) wish.giveUp();
        brokenLines.add(wish.line);
      }
    }
    this.#timers = this.#timers.filter((due) => due.life !== life);
  }

  /** Lets one thing (sometimes several) happen: an answer, or the next timer. False: there is nothing to wait for. */
  step(): boolean {
    const { random } = this.#deps;
    const ready = this.#ready();
    if (ready.length > 0 && !random.chance(0.15)) {
      const count = random.chance(0.7) ? 1 : random.between(1, ready.length);
      for (let left = count; left > 0 && ready.length > 0; left--) {
        const [wish] = ready.splice(random.between(0, ready.length - 1), 1);
        if (wish !== undefined && this.#wishes.includes(wish)) wish.carryOut();
      }
      return true;
    }
    const limitMs = Math.min(Infinity, ...ready.map(({ latestMs }) => latestMs));
    const [next] = this.#timers;
    if (next !== undefined && next.dueMs <= limitMs) {
      this.#timers.shift();
      this.#nowMs = Math.max(this.#nowMs, next.dueMs);
      next.fn();
      return true;
    }
    if (limitMs < Infinity) {
      this.#nowMs = Math.max(this.#nowMs, limitMs);
      ready.find(({ latestMs }) => latestMs <= this.#nowMs)?.carryOut();
      return true;
    }
    return false;
  }

  /** Answers that are still owed to a process. */
  owedTo(life: Life): readonly string[] {
    return this.#wishes.filter((wish) => wish.life === life).map(({ what, subject }) => `${what} ${subject}`);
  }

  #ready(): Wish[] {
    const lines = new Set<string>();
    return this.#wishes.filter((wish) => {
      if (wish.held) return false;
      if (wish.line === undefined) return true;
      if (lines.has(wish.line)) return false;
      lines.add(wish.line);
      return true;
    });
  }
}

/** What nobody hears of any more. */
function quietly(effect: () => unknown): void {
  try {
    effect();
  } catch {
    // Its failure, too.
  }
}
