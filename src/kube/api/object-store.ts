import type { Clock } from '../../lib/clock.ts';
import { messageOf } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import type { Database, Statement } from '../../lib/store/store-thread.ts';
import type { ObjectKey } from '../client.ts';
import type { KubeObject, New, Resource } from '../objects.ts';
import { isResource } from '../resources.ts';
import { DEFAULT_HISTORY, WatchHub, type EventQueue, type HistoryLimits, type StoreEvent } from './watch-hub.ts';

export const API_SCHEMA = `
  CREATE TABLE IF NOT EXISTS objects (
    resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, resource_version INTEGER NOT NULL,
    body TEXT NOT NULL, applied TEXT, PRIMARY KEY (resource, namespace, name)
  ) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS api_state (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS damaged_objects (resource TEXT, namespace TEXT, name TEXT, body TEXT, why TEXT, wall_ms INTEGER);`;

/** What each manager last applied, by manager: the memory of `apply`. */
export type Applied = Readonly<Record<string, unknown>>;

export interface StoredObject {
  /** Never to be changed: it is shared with the history and with everybody who reads. */
  readonly object: KubeObject;
  readonly applied?: Applied;
}

/** What a change comes to. `keep`: nothing is written, the caller is answered with this object. */
export type Decision =
  | { readonly kind: 'put'; readonly object: New<KubeObject>; readonly applied?: Applied }
  | { readonly kind: 'remove'; readonly object: KubeObject }
  | { readonly kind: 'keep'; readonly object: KubeObject };

interface InFlight {
  readonly event: StoreEvent;
  readonly stored?: StoredObject;
  outcome: 'open' | 'done' | 'failed';
  readonly published: PromiseWithResolvers<undefined>;
}

export interface StoreDeps {
  readonly db: Database;
  readonly clock: Clock;
  readonly log: Log;
  readonly history?: HistoryLimits;
}

/**
 * Objects in memory, each change on disk before anybody can see it. One counter numbers all changes; changes of different objects
 * are written side by side and become visible in the order of their numbers, so a reader of version N has seen all up to N.
 */
export class ObjectStore {
  readonly #db: Database;
  readonly #objects = new Map<Resource, Map<string, StoredObject>>();
  /** The last change asked for of each object: the next one waits for it. */
  readonly #turns = new Map<string, Promise<unknown>>();
  readonly #inFlight: InFlight[] = [];
  readonly #hub: WatchHub;
  /** Handed out to a change. */
  #last: number;
  /** Visible to readers. */
  #visible: number;

  private constructor(deps: StoreDeps, resourceVersion: number) {
    this.#db = deps.db;
    this.#last = resourceVersion;
    this.#visible = resourceVersion;
    this.#hub = new WatchHub(resourceVersion, deps.history ?? DEFAULT_HISTORY);
  }

  /** Reads all objects. One that cannot be read is set aside in a table of its own and named in the log; the rest goes on. */
  static async open(deps: StoreDeps): Promise<ObjectStore> {
    const { db, clock, log } = deps;
    const state = await db.read<{ value: number }>(`SELECT value FROM api_state WHERE key = 'resource_version'`);
    const rows = await db.read<Row>('SELECT * FROM objects');
    const newest = Math.max(1, state[0]?.value ?? 1, ...rows.map((row) => row.resource_version));
    const store = new ObjectStore(deps, newest);
    for (const row of rows) {
      try {
        store.#table(resourceOf(row)).set(idOf(row.namespace, row.name), decode(row));
      } catch (error) {
        const { resource, namespace, name } = row;
        log.error({ resource, namespace, name, error: messageOf(error) }, 'damaged object set aside');
        await db.write(
          {
            sql: 'INSERT INTO damaged_objects SELECT resource, namespace, name, body, ?, ? FROM objects WHERE resource = ? AND namespace = ? AND name = ?',
            params: [messageOf(error), Math.round(clock.wallMs()), resource, namespace, name],
          },
          deleteStatement(resource, namespace, name),
        );
      }
    }
    return store;
  }

  get resourceVersion(): number {
    return this.#visible;
  }

  get(resource: Resource, key: ObjectKey): StoredObject | undefined {
    return this.#table(resource).get(idOf(key.namespace ?? '', key.name));
  }

  /** In the order of namespace and name. */
  list(resource: Resource): KubeObject[] {
    const entries = [...this.#table(resource).entries()].sort(([left], [right]) => (left < right ? -1 : 1));
    return entries.map(([, { object }]) => object);
  }

  /**
   * Changes one object. `decide` runs when every earlier change of this object is over, reads the present state and
   * answers at once; what it throws goes to the caller. Resolves when the change is on disk and visible.
   */
  async change(
    resource: Resource,
    key: ObjectKey,
    decide: (current: StoredObject | undefined) => Decision,
  ): Promise<KubeObject> {
    const id = `${resource} ${idOf(key.namespace ?? '', key.name)}`;
    const before = this.#turns.get(id) ?? Promise.resolve();
    const turn = before.then(async () => await this.#carryOut(resource, key, decide(this.get(resource, key))));
    const settled = turn.then(
      () => undefined,
      () => undefined,
    );
    this.#turns.set(id, settled);
    try {
      return await turn;
    } finally {
      if (this.#turns.get(id) === settled) this.#turns.delete(id);
    }
  }

  /** True while an object of this namespace is being changed. */
  busy(namespace: string): boolean {
    for (const id of this.#turns.keys()) if (id.slice(id.indexOf(' ') + 1).startsWith(`${namespace}/`)) return true;
    return false;
  }

  /** See WatchHub.since. */
  eventsSince(resourceVersion: number): EventQueue {
    return this.#hub.since(resourceVersion, this.#visible);
  }

  /** Ends the watches. The database is the opener's. */
  close(): void {
    this.#hub.close();
  }

  #table(resource: Resource): Map<string, StoredObject> {
    let table = this.#objects.get(resource);
    if (table === undefined) this.#objects.set(resource, (table = new Map<string, StoredObject>()));
    return table;
  }

  async #carryOut(resource: Resource, key: ObjectKey, decision: Decision): Promise<KubeObject> {
    if (decision.kind === 'keep') return decision.object;
    const resourceVersion = ++this.#last;
    const { namespace = '', name } = key;
    const metadata = { ...decision.object.metadata, resourceVersion: String(resourceVersion) };
    const object = { ...decision.object, metadata } as KubeObject;
    const previous = this.get(resource, key)?.object;
    const removed = decision.kind === 'remove';
    const body = JSON.stringify(object);
    const applied = decision.kind === 'put' ? decision.applied : undefined;
    const flight: InFlight = {
      event: {
        type: removed ? 'DELETED' : previous === undefined ? 'ADDED' : 'MODIFIED',
        resource,
        resourceVersion,
        object,
        ...(previous === undefined ? {} : { previous }),
        bytes: body.length,
      },
      ...(removed ? {} : { stored: { object, ...(applied === undefined ? {} : { applied }) } }),
      outcome: 'open',
      published: Promise.withResolvers(),
    };
    this.#inFlight.push(flight);
    const statement = removed
      ? deleteStatement(resource, namespace, name)
      : putStatement({
          ...{ resource, namespace, name, resource_version: resourceVersion, body },
          applied: applied === undefined ? null : JSON.stringify(applied),
        });
    try {
      await this.#db.write(statement, {
        sql: `INSERT OR REPLACE INTO api_state (key, value) VALUES ('resource_version', ?)`,
        params: [resourceVersion],
      });
      flight.outcome = 'done';
    } catch (error) {
      flight.outcome = 'failed';
      this.#publish();
      throw error;
    }
    this.#publish();
    await flight.published.promise;
    return object;
  }

  /** Makes visible what is on disk, up to the first change that is not yet. */
  #publish(): void {
    for (let first = this.#inFlight[0]; first !== undefined && first.outcome !== 'open'; first = this.#inFlight[0]) {
      this.#inFlight.shift();
      if (first.outcome === 'done') this.#show(first);
      first.published.resolve(undefined);
    }
  }

  #show({ event, stored }: InFlight): void {
    const { metadata } = event.object;
    const id = idOf(metadata.namespace ?? '', metadata.name);
    if (stored === undefined) this.#table(event.resource).delete(id);
    else this.#table(event.resource).set(id, stored);
    this.#visible = event.resourceVersion;
    this.#hub.publish(event);
  }
}

interface Row {
  readonly resource: string;
  readonly namespace: string;
  readonly name: string;
  readonly resource_version: number;
  readonly body: string;
  readonly applied: string | null;
}

function idOf(namespace: string, name: string): string {
  return `${namespace}/${name}`;
}

function resourceOf(row: Row): Resource {
  if (!isResource(row.resource)) throw new Error(`unknown resource ${row.resource}`);
  return row.resource;
}

function decode(row: Row): StoredObject {
  const object = JSON.parse(row.body) as KubeObject | null;
  if (object?.metadata.name !== row.name) throw new Error('the stored text is another object');
  return row.applied === null ? { object } : { object, applied: JSON.parse(row.applied) as Applied };
}

function putStatement(row: Row): Statement {
  const { resource, namespace, name, resource_version: resourceVersion, body, applied } = row;
  return {
    sql: 'INSERT OR REPLACE INTO objects (resource, namespace, name, resource_version, body, applied) VALUES (?, ?, ?, ?, ?, ?)',
    params: [resource, namespace, name, resourceVersion, body, applied],
  };
}

function deleteStatement(resource: string, namespace: string, name: string): Statement {
  return {
    sql: 'DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?',
    params: [resource, namespace, name],
  };
}
