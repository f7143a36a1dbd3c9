import { raceSignal, withDeadline, type Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { isKind, kindOf, messageOf } from '../../lib/errors.ts';
import { Slots } from '../../lib/slots.ts';

/** What a directory tree takes on its disk. */
export interface TreeUse {
  readonly bytes: number;
  readonly inodes: number;
  readonly takenAtWallMs: number;
}

export interface LayerUsageDeps {
  readonly clock: Clock;
  /** Outlives the call that wants the walk. */
  readonly background: Op;
  /** Walks the tree, not on this thread. NotFound when it is gone. A few run at a time. */
  readonly walk: (op: Op, id: string) => Promise<{ readonly bytes: number; readonly inodes: number }>;
}

/** A value is good for so long: true after a write within this time, or within ten times what a walk takes, if that is longer. */
export const FRESH_MS = 10_000;
const SHARE_OF_WALKS = 10;
const WALK_TIMEOUT_MS = 300_000;
const WALKS_AT_ONCE = 4;

/** How long a call waits for a walk that is due, in milliseconds. */
export interface Patience {
  /** Where an older value is known. */
  readonly patienceMs: number;
  /** Where nothing is known yet, from the beginning of the first walk on: a walk that takes longer holds up no later call. */
  readonly firstPatienceMs?: number;
}

interface Entry {
  use?: TreeUse;
  /** Monotonic; of the beginning of the walk that told `use`. */
  fromMs?: number;
  tookMs: number;
  /** Walked after nothing could write there any more. */
  final: boolean;
  walking?: Promise<void>;
  /** Monotonic; since when `walking` is under way or waits for its turn. */
  walkingSinceMs: number;
}

/**
 * What containers have written, by container. A tree is walked at most as often as said above, however often it is asked for: a call
 * gets what the last walk has told, and only waits for a walk as long as it says.
 */
export class LayerUsage {
  readonly #deps: LayerUsageDeps;
  readonly #entries = new Map<string, Entry>();
  readonly #turns = new Slots(WALKS_AT_ONCE, { what: 'adding up what containers have written' });

  constructor(deps: LayerUsageDeps) {
    this.#deps = deps;
  }

  /** `still`: nothing writes there any more. Undefined when nothing is known within the caller's patience. */
  async of(op: Op, id: string, { still, ...patience }: Patience & { still: boolean }): Promise<TreeUse | undefined> {
    const entry = this.#entries.get(id) ?? { tookMs: 0, final: false, walkingSinceMs: 0 };
    this.#entries.set(id, entry);
    if (!this.#isDue(entry, still)) return entry.use;
    if (entry.walking === undefined) {
      entry.walkingSinceMs = this.#deps.clock.monotonicMs();
      entry.walking = this.#walk(id, entry, still).finally(() => delete entry.walking);
    }
    await this.#waitFor(op, entry.walking, this.#limitOf(entry, patience));
    return entry.use;
  }

  /** The container is gone. */
  forget(id: string): void {
    this.#entries.delete(id);
  }

  #isDue({ use, fromMs, tookMs, final }: Entry, still: boolean): boolean {
    if (use === undefined || fromMs === undefined) return true;
    if (still) return !final;
    return this.#deps.clock.monotonicMs() - fromMs >= Math.max(FRESH_MS, SHARE_OF_WALKS * tookMs);
  }

  #limitOf({ use, walkingSinceMs }: Entry, { patienceMs, firstPatienceMs = 0 }: Patience): number {
    if (use !== undefined) return patienceMs;
    return Math.max(patienceMs, walkingSinceMs + firstPatienceMs - this.#deps.clock.monotonicMs());
  }

  /** Never rejects: a tree that cannot be walked keeps what was known of it. */
  async #walk(id: string, entry: Entry, still: boolean): Promise<void> {
    const { clock, background, walk } = this.#deps;
    const what = `adding up what ${id} has written`;
    try {
      await this.#turns.run(background, async () => {
        const fromMs = clock.monotonicMs();
        const told = await withDeadline(background, clock, WALK_TIMEOUT_MS, what, (op) => walk(op, id));
        entry.use = { ...told, takenAtWallMs: clock.wallMs() };
        entry.fromMs = fromMs;
        entry.tookMs = clock.monotonicMs() - fromMs;
        entry.final = still;
      });
    } catch (error) {
      if (isKind(error, 'NotFound')) this.#entries.delete(id);
      else
        background.log.debug(
          { id, errKind: kindOf(error), error: messageOf(error) },
          'a writable layer was not walked',
        );
    }
  }

  async #waitFor(op: Op, walking: Promise<void>, limitMs: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const timer = this.#deps.clock.after(limitMs, () => resolve(undefined));
    try {
      await raceSignal(Promise.race([walking, promise]), op.signal);
    } finally {
      timer.cancel();
    }
  }
}
