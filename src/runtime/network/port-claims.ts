import { alreadyExists } from '../../lib/errors.ts';
import type { Clock } from '../../lib/clock.ts';
import { collides, nameOfPort, type Listener, type PortMapping } from './host-ports.ts';
import { describePublisher, type PublishedPort } from './published-ports.ts';

/** A pod and the host ports that it has, or is about to get. */
export interface PortHolder {
  readonly sandboxId: string;
  /** NAMESPACE/NAME */
  readonly pod: string;
  readonly ports: readonly PortMapping[];
}

/** Far longer than it takes to write an intent; shorter than a person's patience, should the writer have been stopped between. */
const CLAIM_MS = 30_000;

/**
 * Host ports between the look that finds them free and the ledger's entry that says whose they are: two pods that are made
 * side by side would both find a port free, and the second one's rules would take no connection ever.
 */
export class PortClaims {
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #claims = new Map<string, { readonly holder: PortHolder; readonly untilMs: number }>();

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock;
  }

  /**
   * Of the ports that `holder` wants, none may be another's. Throws AlreadyExists with the one who has it. `elsewhere`: what the host's
   * port rules publish for whoever it is; `ours`: of those that this Gantry had a moment ago, the ids.
   */
  claim(
    holder: PortHolder,
    known: readonly PortHolder[],
    listeners: readonly Listener[],
    elsewhere: readonly PublishedPort[] = [],
    ours: ReadonlySet<string> = new Set(),
  ): void {
    const nowMs = this.#clock.monotonicMs();
    for (const [id, { untilMs }] of this.#claims) if (untilMs <= nowMs) this.#claims.delete(id);
    const claimed = [...this.#claims.values()].map((claim) => claim.holder);
    const others = [...known, ...claimed].filter(({ sandboxId }) => sandboxId !== holder.sandboxId);
    const own = new Set([holder, ...known, ...claimed].map(({ sandboxId }) => sandboxId)).union(ours);
    const strangers = elsewhere.filter(({ containerId }) => !own.has(containerId));
    for (const mapping of holder.ports) {
      const name = nameOfPort(mapping);
      const details = { hostPort: mapping.hostPort };
      for (const { pod, ports } of others) {
        const taken = ports.some((port) =>
          collides(mapping, { protocol: port.protocol, port: port.hostPort, address: port.hostIp ?? '' }),
        );
        if (taken) throw alreadyExists(`${name} is taken by pod ${pod}`, { details });
      }
      if (listeners.some((listener) => collides(mapping, listener))) {
        throw alreadyExists(`${name} is in use: a process on this host listens on it`, { details });
      }
      const stranger = strangers.find((port) => collides(mapping, port));
      if (stranger !== undefined) throw alreadyExists(`${name} is taken: ${describePublisher(stranger)}`, { details });
    }
    this.#claims.set(holder.sandboxId, { holder, untilMs: nowMs + CLAIM_MS });
  }

  /** The ledger has it now, or nobody needs it any more. */
  drop(sandboxId: string): void {
    this.#claims.delete(sandboxId);
  }
}
