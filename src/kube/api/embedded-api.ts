import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import type { Room } from '../../lib/store/disk-room.ts';
import type { Database } from '../../lib/store/store-thread.ts';
import { Housekeeping } from './housekeeping.ts';
import { ObjectStore } from './object-store.ts';
import { ApiRegistry, STANDING_NAMESPACES } from './registry.ts';
import type { HistoryLimits } from './watch-hub.ts';

export { API_SCHEMA } from './object-store.ts';

export interface EmbeddedApiConfig {
  /** Opened with API_SCHEMA. Stays the caller's to close. */
  readonly db: Database;
  readonly clock: Clock;
  readonly log: Log;
  /** The node whose agent runs the pods. */
  readonly nodeName?: string;
  readonly history?: HistoryLimits;
  /** No object is created while there is none (default: ample). */
  readonly room?: Room;
}

export interface EmbeddedApi {
  readonly registry: ApiRegistry;
  /** Ends all watches quietly. */
  close(): void;
}

/** The Kubernetes API of one machine: objects, rules, housekeeping; without a door yet (server.ts, in-process-client.ts). */
export async function openEmbeddedApi(config: EmbeddedApiConfig): Promise<EmbeddedApi> {
  const store = await ObjectStore.open(config);
  const { clock, nodeName, room } = config;
  const registry = new ApiRegistry({ store, clock, nodeName, room });
  for (const name of STANDING_NAMESPACES) {
    if (store.get('namespaces', { name }) === undefined) {
      await registry.create('namespaces', undefined, {
        metadata: { name, labels: { 'kubernetes.io/metadata.name': name } },
      });
    }
  }
  const housekeeping = new Housekeeping(registry, config.clock, config.log);
  return {
    registry,
    close: () => {
      housekeeping.stop();
      store.close();
    },
  };
}
