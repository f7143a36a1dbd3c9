import type { Op } from '../../lib/abort.ts';
import { backoffDelayMs, type BackoffPolicy } from '../../lib/backoff.ts';
import type { Clock } from '../../lib/clock.ts';
import { isKind, messageOf } from '../../lib/errors.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Pod } from '../../kube/objects.ts';

export interface PodSourceDeps {
  readonly kube: Pick<KubeClient, 'list' | 'watch'>;
  readonly clock: Clock;
  readonly nodeName: string;
  readonly onPod: (pod: Pod) => void;
  readonly onGone: (uid: string, last: Pod) => void;
  /** Every pod that there is has been told of once. */
  readonly onSynced: () => void;
}

const RETRY: BackoffPolicy = { initialMs: 200, maxMs: 10_000 };

/**
 * The pods of this node, from a list and then a watch; when the watch breaks, from a new list, whose difference to what was
 * known stands for the events that were missed.
 */
export class PodSource {
  readonly #deps: PodSourceDeps;
  readonly #known = new Map<string, Pod>();
  #synced = false;

  constructor(deps: PodSourceDeps) {
    this.#deps = deps;
  }

  /** Until the op's signal fires. */
  async run(op: Op): Promise<void> {
    const stopped = (): boolean => op.signal.aborted;
    let failures = 0;
    while (!stopped()) {
      try {
        const version = await this.#list(op);
        failures = 0;
        await this.#watch(op, version);
      } catch (error) {
        if (stopped()) return;
        failures += 1;
        if (!isKind(error, 'OutOfRange'))
          op.log.warn({ error: messageOf(error) }, 'pods cannot be watched, listing again');
      }
      try {
        await this.#deps.clock.sleep(backoffDelayMs(RETRY, Math.max(failures, 1)), op.signal);
      } catch {
        return;
      }
    }
  }

  async #list(op: Op): Promise<string> {
    const { items, metadata } = await this.#deps.kube.list(op, 'pods');
    const mine = items.filter((pod) => this.#isMine(pod));
    const present = new Set(mine.map((pod) => pod.metadata.uid));
    for (const [uid, last] of this.#known) if (!present.has(uid)) this.#gone(uid, last);
    for (const pod of mine) this.#set(pod);
    if (!this.#synced) {
      this.#synced = true;
      this.#deps.onSynced();
    }
    return metadata.resourceVersion;
  }

  async #watch(op: Op, resourceVersion: string): Promise<void> {
    for await (const event of this.#deps.kube.watch(op, 'pods', { resourceVersion })) {
      if (event.type === 'BOOKMARK') continue;
      const pod = event.object;
      if (event.type === 'DELETED' || !this.#isMine(pod)) {
        if (this.#known.has(pod.metadata.uid)) this.#gone(pod.metadata.uid, pod);
      } else this.#set(pod);
    }
  }

  /** One machine: a pod that names no node is meant for this one. */
  #isMine(pod: Pod): boolean {
    const { nodeName } = pod.spec;
    return nodeName === undefined || nodeName === '' || nodeName === this.#deps.nodeName;
  }

  #set(pod: Pod): void {
    const { uid } = pod.metadata;
    if (this.#known.get(uid)?.metadata.resourceVersion === pod.metadata.resourceVersion) return;
    this.#known.set(uid, pod);
    this.#deps.onPod(pod);
  }

  #gone(uid: string, last: Pod): void {
    this.#known.delete(uid);
    this.#deps.onGone(uid, last);
  }
}
