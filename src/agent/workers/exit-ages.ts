import type { Clock } from '../../lib/clock.ts';
import { hasExited, type PodRuntimeState } from '../pleg/pod-runtime-state.ts';

/**
 * How long ago containers ended, on a clock that does not step. The runtime's times are wall times: one is believed when it
 * is first seen, within reason, and from then on our own clock counts.
 */
export class ExitAges {
  readonly #clock: Clock;
  readonly #endedAtMs = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  update(state: PodRuntimeState): ReadonlyMap<string, number> {
    const nowMs = this.#clock.monotonicMs();
    const present = new Set(state.containers.map(({ id }) => id));
    for (const id of this.#endedAtMs.keys()) if (!present.has(id)) this.#endedAtMs.delete(id);
    for (const container of state.containers) {
      if (!hasExited(container) || this.#endedAtMs.has(container.id)) continue;
      const agoMs = Math.max(0, this.#clock.wallMs() - container.state.finishedAtMs);
      this.#endedAtMs.set(container.id, nowMs - agoMs);
    }
    return new Map([...this.#endedAtMs].map(([id, endedAtMs]) => [id, nowMs - endedAtMs]));
  }
}
