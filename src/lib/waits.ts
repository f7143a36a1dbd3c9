import type { Clock } from './clock.ts';

/** Something outside this process that is being waited for. */
export interface Wait {
  /** A noun: `runc delete`, `the unmount of /run/x`. */
  readonly what: string;
  /** Monotonic. */
  readonly sinceMs: number;
}

/** What one piece of work waits for at this moment, so that people can be told what exactly holds it up. */
export class Waits {
  readonly #clock: Clock;
  readonly #present = new Set<Wait>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  begin(what: string): Disposable {
    const wait: Wait = { what, sinceMs: this.#clock.monotonicMs() };
    this.#present.add(wait);
    return { [Symbol.dispose]: () => void this.#present.delete(wait) };
  }

  /** Longest first. */
  present(): readonly Wait[] {
    return [...this.#present];
  }

  /** ` (waiting for …)`, or nothing. */
  words(): string {
    const [first] = this.#present;
    return first === undefined ? '' : ` (waiting for ${first.what})`;
  }
}

/** Runs `wait` and lets it be known meanwhile, where the op has a place for it, that `what` is waited for. */
export async function waitingFor<T>(op: { readonly waits?: Waits }, what: string, wait: () => Promise<T>): Promise<T> {
  const noted = op.waits?.begin(what);
  try {
    return await wait();
  } finally {
    noted?.[Symbol.dispose]();
  }
}
