import { detached, type Op } from '../../lib/abort.ts';
import type { Clock, Timer } from '../../lib/clock.ts';
import { messageOf } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import type { ConnectedPods } from './connected-pods.ts';
import type { HostSetup } from './host-setup.ts';

const REPAIR_EVERY_MS = 60_000;
const REPAIR_TIMEOUT_MS = 45_000;
/** An iptables that waits for another's lock must not hold the daemon's end up: the next one goes on. */
const CLOSE_WAIT_MS = 5_000;

export interface DefaultNetworkCareDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly host: HostSetup;
  readonly pods: Pick<ConnectedPods, 'plans' | 'useDefault'>;
}

/** Looks after the default network's rules on the host, as long as a pod is on it. */
export class DefaultNetworkCare {
  readonly #deps: DefaultNetworkCareDeps;
  readonly #undoing = new Set<Promise<void>>();
  #timer: Timer | undefined;
  #closed = false;

  constructor(deps: DefaultNetworkCareDeps) {
    this.#deps = deps;
  }

  /** Puts back what somebody took away of the default network's rules; undoes them when no pod is left. */
  async repair(op: Op): Promise<void> {
    const { host: setup, pods } = this.#deps;
    // The volatile ledger can be lost while pods live on: their own entries are durable and say which network it was.
    const network = setup.current() ?? pods.plans().find(({ host }) => host !== undefined)?.host;
    if (network === undefined) return;
    if (pods.useDefault()) await setup.ensure(op, network, { lookNow: true });
    else await setup.releaseUnless(op, () => pods.useDefault());
  }

  /** A pod has left the network: undoes the rules if it was the last. Nobody waits for that, and what fails is tried again by {@link repair}. */
  podLeft(): void {
    const { log, clock, host, pods } = this.#deps;
    const undoing = detached(log, clock, REPAIR_TIMEOUT_MS, 'undo the host set-up', (op) =>
      host.releaseUnless(op, () => pods.useDefault()),
    )
      .catch((error: unknown) => {
        log.warn({ error: messageOf(error) }, 'the set-up of the pod network cannot be undone');
      })
      .finally(() => this.#undoing.delete(undoing));
    this.#undoing.add(undoing);
  }

  /** From now on, until no network of ours is there any more. */
  arm(): void {
    if (this.#closed) return;
    this.#timer ??= this.#deps.clock.after(REPAIR_EVERY_MS, () => {
      this.#timer = undefined;
      const { log, clock, host } = this.#deps;
      detached(log, clock, REPAIR_TIMEOUT_MS, 'look after the pod network', (op) => this.repair(op))
        .catch((error: unknown) => {
          log.warn({ error: messageOf(error) }, 'the pod network cannot be looked after');
        })
        .finally(() => {
          if (host.current() !== undefined) this.arm();
        });
    });
  }

  /** Waits a while for what is being undone. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#timer?.cancel();
    if (this.#undoing.size === 0) return;
    await Promise.race([Promise.all(this.#undoing), this.#deps.clock.sleep(CLOSE_WAIT_MS)]);
  }
}
