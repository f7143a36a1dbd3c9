import type { Op } from '../../lib/abort.ts';
import { FakeClock } from '../../lib/fake-clock.ts';
import { silentLog } from '../../lib/log.ts';
import type { KubeClient } from '../client.ts';
import { inProcessClient } from '../in-process-client.ts';
import type { New, Pod } from '../objects.ts';
import { API_SCHEMA, openEmbeddedApi, type EmbeddedApi, type EmbeddedApiConfig } from './embedded-api.ts';
import { FakeDatabase } from './fake-database.ts';

export interface FakeApi extends EmbeddedApi {
  readonly clock: FakeClock;
  readonly db: FakeDatabase;
  readonly kube: KubeClient;
  readonly op: Op;
}

/** The embedded API over a database in memory and a clock that stands still; its node is `node-1`. */
export async function openFakeApi(
  config: Partial<EmbeddedApiConfig> & { readonly db?: FakeDatabase } = {},
): Promise<FakeApi> {
  const clock = new FakeClock();
  const db = config.db ?? new FakeDatabase(API_SCHEMA);
  const api = await openEmbeddedApi({ clock, log: silentLog, nodeName: 'node-1', ...config, db });
  return {
    ...api,
    clock,
    db,
    kube: inProcessClient(api.registry, clock),
    op: { signal: new AbortController().signal, log: silentLog },
  };
}

export function examplePod(
  name: string,
  more: Partial<Pod['spec']> = {},
  labels: Record<string, string> = {},
): New<Pod> {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: 'default', labels },
    spec: { containers: [{ name: 'main', image: 'busybox:1' }], ...more },
  };
}
