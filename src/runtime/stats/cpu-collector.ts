import type { Clock, Timer } from '../../lib/clock.ts';
import { messageOf } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import type { CpuWindows } from './cpu-windows.ts';

/** How often each cgroup's processor time is looked at: the field's own rate for this. */
export const COLLECT_MS = 10_000;
const AT_ONCE = 8;

export interface CollectorDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly windows: CpuWindows;
  /** Cgroups of what runs now. What is dead is not among them and costs nothing. */
  readonly running: () => readonly string[];
  readonly totalNs: (cgroupPath: string) => Promise<bigint | undefined>;
}

/**
 * Looks at every running cgroup's processor time now and then, so that whoever asks for a rate for the first time is told one over a
 * window that has passed already.
 */
export class CpuCollector {
  readonly #deps: CollectorDeps;
  #timer: Timer | undefined;
  #closed = false;

  constructor(deps: CollectorDeps) {
    this.#deps = deps;
  }

  start(): void {
    void this.#round();
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }

  async #round(): Promise<void> {
    const { clock, log, windows, running } = this.#deps;
    try {
      const paths = running();
      windows.keepOnly(new Set(paths));
      const rest = paths.values();
      // A few at a time: the pool of threads has other work.
      await Promise.all(Array.from({ length: AT_ONCE }, () => this.#lookAt(rest)));
    } catch (error) {
      log.warn({ error: messageOf(error) }, 'processor times could not be looked at; tried again');
    }
    if (!this.#closed) this.#timer = clock.after(COLLECT_MS, () => void this.#round());
  }

  async #lookAt(paths: Iterator<string>): Promise<void> {
    const { windows, totalNs } = this.#deps;
    for (let next = paths.next(); next.done !== true && !this.#closed; next = paths.next()) {
      const total = await totalNs(next.value);
      if (total !== undefined) windows.add(next.value, total);
    }
  }
}
