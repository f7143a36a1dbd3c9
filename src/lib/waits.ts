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
  readonly #present = new Set<Wait | Waits>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  begin(what: string): Disposable {
    return this.#add({ what, sinceMs: this.#clock.monotonicMs() });
  }

  /** Until it is disposed of, what the other waits for is waited for here as well: for those who join work that is under way. */
  join(other: Waits): Disposable {
    return this.#add(other);
  }

  /** In the order in which they began here. */
  present(): readonly Wait[] {
    return [...this.#present].flatMap((one) => (one instanceof Waits ? one.present() : [one]));
  }

  /** ` (waiting for …)`, or nothing. */
  words(): string {
    const [first] = this.present();
    return first === undefined ? '' : ` (waiting for ${first.what})`;
  }

  #add(one: Wait | Waits): Disposable {
    this.#present.add(one);
    return { [Symbol.dispose]: () => void this.#present.delete(one) };
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
