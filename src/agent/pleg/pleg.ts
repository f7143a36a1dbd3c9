import { withDeadline, type Op } from '../../lib/abort.ts';
import type { Clock, Timer } from '../../lib/clock.ts';
import { messageOf } from '../../lib/errors.ts';
import type { RuntimeService } from '../../cri/services.ts';
import { changedPods, relist, type RuntimeSnapshot } from './relist.ts';

export interface PlegDeps {
  readonly runtime: Pick<RuntimeService, 'listPodSandbox' | 'listContainers'>;
  readonly agentId: string;
  readonly clock: Clock;
  readonly op: Op;
  /** Something of these pods has changed. */
  readonly onChange: (podUids: readonly string[]) => void;
}

const RELIST_PERIOD_MS = 1_000;
const RELIST_TIMEOUT_MS = 10_000;

/** The pod life-cycle event generator: looks at the runtime each second and wakes whom something has happened to. */
export class Pleg {
  readonly #deps: PlegDeps;
  #snapshot: RuntimeSnapshot | undefined;
  #lastError: string | undefined;
  #lookedAtMs: number | undefined;
  #timer: Timer | undefined;
  #looking: Promise<void> | undefined;
  #again = false;
  #stopped = false;

  constructor(deps: PlegDeps) {
    this.#deps = deps;
  }

  /** The last look that succeeded. */
  get snapshot(): RuntimeSnapshot | undefined {
    return this.#snapshot;
  }

  health(): { readonly agoMs: number | undefined; readonly lastError: string | undefined } {
    const agoMs = this.#lookedAtMs === undefined ? undefined : this.#deps.clock.monotonicMs() - this.#lookedAtMs;
    return { agoMs, lastError: this.#lastError };
  }

  /** Looks now, and then a second after each look. Resolves after the first one, whether it succeeded or not. */
  async start(): Promise<void> {
    await this.look();
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  look(): Promise<void> {
    this.#timer?.cancel();
    this.#looking ??= this.#look();
    return this.#looking;
  }

  /** Something has happened in the runtime: look without waiting for the period, and after a look that is under way. */
  hint(): void {
    if (this.#stopped) return;
    if (this.#looking === undefined) void this.look();
    else this.#again = true;
  }

  async #look(): Promise<void> {
    const { clock, op, runtime, agentId, onChange } = this.#deps;
    try {
      const before = this.#snapshot;
      const after = await withDeadline(op, clock, RELIST_TIMEOUT_MS, 'relist', (bounded) =>
        relist(bounded, runtime, agentId),
      );
      this.#snapshot = after;
      this.#lookedAtMs = clock.monotonicMs();
      this.#lastError = undefined;
      const changed = changedPods(before, after);
      if (changed.length > 0) onChange(changed);
    } catch (error) {
      const message = messageOf(error);
      if (message !== this.#lastError && !op.signal.aborted)
        op.log.warn({ error: message }, 'PLEG: the runtime cannot be listed');
      this.#lastError = message;
    }
    this.#looking = undefined;
    if (this.#stopped || op.signal.aborted) return;
    const again = this.#again;
    this.#again = false;
    // The look that has just ended may have begun before what the hint was about.
    if (again) void this.look();
    else this.#timer = clock.after(RELIST_PERIOD_MS, () => void this.look());
  }
}
