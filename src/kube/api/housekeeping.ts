import type { Clock } from '../../lib/clock.ts';
import { isKind, messageOf } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import type { Event } from '../objects.ts';
import { RESOURCES } from '../resources.ts';
import type { ApiRegistry } from './registry.ts';
import type { EventQueue, StoreEvent } from './watch-hub.ts';

/** Kubernetes' default. */
const EVENT_TTL_MS = 3_600_000;
const EXPIRY_EVERY_MS = 60_000;

/** What the API does by itself: events expire, and a namespace that is deleted takes its content along. */
export class Housekeeping {
  readonly #registry: ApiRegistry;
  readonly #clock: Clock;
  readonly #log: Log;
  #changes: EventQueue;
  #timer: { cancel(): void };
  #stopped = false;

  constructor(registry: ApiRegistry, clock: Clock, log: Log) {
    this.#registry = registry;
    this.#clock = clock;
    this.#log = log;
    this.#changes = registry.store.eventsSince(registry.store.resourceVersion);
    this.#timer = this.#nextExpiry();
    void this.#followNamespaces();
  }

  stop(): void {
    this.#stopped = true;
    this.#timer.cancel();
    this.#changes.close();
  }

  /** Removes what has expired. Public for the test of the rule itself. */
  async expireEvents(): Promise<void> {
    const nowMs = this.#clock.wallMs();
    for (const object of this.#registry.store.list('events')) {
      if (nowMs - lastSeenMs(object as Event) <= EVENT_TTL_MS) continue;
      const { uid, resourceVersion } = object.metadata;
      try {
        await this.#registry.delete('events', object.metadata, { preconditions: { uid, resourceVersion } });
      } catch (error) {
        // Renewed or removed while we looked.
        if (!isKind(error, 'NotFound', 'Aborted')) throw error;
      }
    }
  }

  #nextExpiry(): { cancel(): void } {
    return this.#clock.after(EXPIRY_EVERY_MS, () => {
      // A namespace that was busy when it was looked at last is looked at again.
      Promise.all([this.expireEvents(), this.#finishAll()])
        .catch((error: unknown) => {
          this.#log.warn({ error: messageOf(error) }, 'housekeeping failed');
        })
        .finally(() => {
          if (!this.#stopped) this.#timer = this.#nextExpiry();
        });
    });
  }

  async #followNamespaces(): Promise<void> {
    while (!this.#stopped) {
      // Those whose end was begun before a restart, and what was missed when we fell behind.
      await this.#finishAll();
      try {
        for (let events = await this.#changes.take(); events !== undefined; events = await this.#changes.take()) {
          for (const name of new Set(events.map(namespaceOf))) await this.#finish(name);
        }
      } catch (error) {
        this.#log.warn({ error: messageOf(error) }, 'housekeeping fell behind the changes');
        this.#changes = this.#registry.store.eventsSince(this.#registry.store.resourceVersion);
      }
    }
  }

  async #finishAll(): Promise<void> {
    for (const { metadata } of this.#registry.store.list('namespaces')) await this.#finish(metadata.name);
  }

  /** Deletes what is in an ending namespace; takes the namespace away once it is empty. */
  async #finish(name: string): Promise<void> {
    const { store } = this.#registry;
    const namespace = store.get('namespaces', { name })?.object;
    if (namespace?.metadata.deletionTimestamp === undefined) return;
    try {
      for (const { resource, namespaced } of Object.values(RESOURCES)) {
        if (namespaced) await this.#registry.deleteCollection(resource, { namespace: name });
      }
      await this.#registry.removeNamespaceIfEmpty(name);
    } catch (error) {
      if (isKind(error, 'NotFound')) return;
      this.#log.warn({ podNamespace: name, error: messageOf(error) }, 'namespace could not be emptied');
    }
  }
}

function namespaceOf({ object }: StoreEvent): string {
  return object.metadata.namespace ?? object.metadata.name;
}

/** The newest of the times that an event has. */
function lastSeenMs(event: Event): number {
  const times = [
    event.series?.lastObservedTime,
    event.lastTimestamp,
    event.eventTime,
    event.metadata.creationTimestamp,
  ];
  return Math.max(...times.map((time) => Date.parse(time ?? '')).filter((time) => !Number.isNaN(time)), 0);
}
