import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { FakeClock } from '../../lib/fake-clock.ts';
import { isKind } from '../../lib/errors.ts';
import { silentLog } from '../../lib/log.ts';
import type { ConfigMap, KubeObject, New } from '../objects.ts';
import { FakeDatabase } from './fake-database.ts';
import { API_SCHEMA, ObjectStore } from './object-store.ts';
import type { EventQueue, HistoryLimits } from './watch-hub.ts';

async function open(db = new FakeDatabase(API_SCHEMA), history?: HistoryLimits): Promise<ObjectStore> {
  return await ObjectStore.open({
    db,
    clock: new FakeClock(),
    log: silentLog,
    ...(history === undefined ? {} : { history }),
  });
}

function map(name: string, value: string): New<ConfigMap> {
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace: 'default', uid: name }, data: { value } };
}

const put = (store: ObjectStore, name: string, value: string): Promise<KubeObject> =>
  store.change('configmaps', { namespace: 'default', name }, () => ({ kind: 'put', object: map(name, value) }));

const remove = (store: ObjectStore, name: string): Promise<KubeObject | undefined> =>
  store.change('configmaps', { namespace: 'default', name }, (current) =>
    current === undefined
      ? { kind: 'keep', object: map(name, '') as KubeObject }
      : { kind: 'remove', object: current.object },
  );

function state(store: ObjectStore): Record<string, string | undefined> {
  return Object.fromEntries(
    store.list('configmaps').map((each) => [each.metadata.name, (each as ConfigMap).data?.['value']]),
  );
}

async function drain(queue: EventQueue): Promise<Awaited<ReturnType<EventQueue['take']>>> {
  queue.close();
  return await queue.take();
}

test('versions only grow, and a watch from any version tells exactly what changed since', async () => {
  const steps = fc.array(
    fc.tuple(fc.constantFrom('a', 'b', 'c', 'd'), fc.oneof(fc.nat(9).map(String), fc.constant(undefined))),
    { maxLength: 30 },
  );
  await fc.assert(
    fc.asyncProperty(steps, fc.nat(30), fc.boolean(), async (changes, cut, sideBySide) => {
      const store = await open();
      const seen: { version: number; state: Record<string, string | undefined> }[] = [];
      const remember = (): void => void seen.push({ version: store.resourceVersion, state: state(store) });
      remember();
      const step = async ([name, value]: (typeof changes)[number]): Promise<void> => {
        await (value === undefined ? remove(store, name) : put(store, name, value));
        remember();
      };
      if (sideBySide) await Promise.all(changes.map(step));
      else for (const change of changes) await step(change);

      const from = seen[Math.min(cut, seen.length - 1)];
      assert.ok(from !== undefined);
      const replayed: Record<string, string | undefined> = { ...from.state };
      let last = from.version;
      for (const event of (await drain(store.eventsSince(from.version))) ?? []) {
        assert.ok(event.resourceVersion > last, 'in order, each once');
        assert.equal(event.object.metadata.resourceVersion, String(event.resourceVersion));
        last = event.resourceVersion;
        const { name } = event.object.metadata;
        assert.equal(event.type === 'ADDED', !(name in replayed));
        if (event.type === 'DELETED') Reflect.deleteProperty(replayed, name);
        else replayed[name] = (event.object as ConfigMap).data?.['value'];
      }
      assert.deepEqual(replayed, state(store));
      assert.equal(last, store.resourceVersion);
    }),
    { numRuns: 60 },
  );
});

test('a change is visible only when it is on disk, and in the order of versions', async () => {
  const db = new FakeDatabase(API_SCHEMA);
  const store = await open(db);
  const release = db.hold();
  const first = put(store, 'a', '1');
  await new Promise(setImmediate);
  assert.deepEqual(state(store), {});
  release();
  await first;
  assert.deepEqual(state(store), { a: '1' });
});

test('a write that fails changes nothing, and the next one goes on', async () => {
  const db = new FakeDatabase(API_SCHEMA);
  const store = await open(db);
  await put(store, 'a', '1');
  const before = store.resourceVersion;
  db.failNext(1);
  await assert.rejects(put(store, 'a', '2'), /disk is full/);
  assert.deepEqual([state(store), store.resourceVersion], [{ a: '1' }, before]);
  await put(store, 'a', '3');
  assert.deepEqual(state(store), { a: '3' });
  assert.ok(store.resourceVersion > before);
});

test('changes of one object wait for one another, and each sees what the one before it did', async () => {
  const store = await open();
  const append = (): Promise<KubeObject> =>
    store.change('configmaps', { namespace: 'default', name: 'a' }, (current) => ({
      kind: 'put',
      object: map('a', `${(current?.object as ConfigMap | undefined)?.data?.['value'] ?? ''}x`),
    }));
  await Promise.all(Array.from({ length: 20 }, append));
  assert.deepEqual(state(store), { a: 'x'.repeat(20) });
});

test('everything is there again after a restart, and versions go on from where they were', async () => {
  const db = new FakeDatabase(API_SCHEMA);
  const store = await open(db);
  await put(store, 'a', '1');
  await put(store, 'b', '2');
  await remove(store, 'b');
  const version = store.resourceVersion;
  const again = await open(db);
  assert.deepEqual([state(again), again.resourceVersion], [{ a: '1' }, version]);
  assert.doesNotThrow(() => again.eventsSince(version));
  assert.throws(
    () => again.eventsSince(version - 1),
    (error) => isKind(error, 'OutOfRange'),
    'history ends at the start',
  );
  assert.throws(
    () => again.eventsSince(version + 1),
    (error) => isKind(error, 'OutOfRange'),
    'never reached',
  );
});

test('a damaged object is set aside, the rest is served', async () => {
  const db = new FakeDatabase(API_SCHEMA);
  const store = await open(db);
  await put(store, 'a', '1');
  await put(store, 'b', '2');
  await db.write({ sql: `UPDATE objects SET body = '{"half' WHERE name = 'a'` });
  assert.deepEqual(state(await open(db)), { b: '2' });
  assert.deepEqual(
    (await db.read<{ name: string; body: string }>('SELECT name, body FROM damaged_objects')).map((row) => ({
      ...row,
    })),
    [{ name: 'a', body: '{"half' }],
  );
  assert.deepEqual(state(await open(db)), { b: '2' });
});

test('the history is bounded: by number and by size', async () => {
  for (const history of [
    { events: 3, bytes: 1e6 },
    { events: 1000, bytes: 600 },
  ]) {
    const store = await open(undefined, history);
    const start = store.resourceVersion;
    for (let i = 0; i < 10; i++) await put(store, 'a', String(i));
    assert.throws(() => store.eventsSince(start), /too old resource version/);
    assert.doesNotThrow(() => store.eventsSince(store.resourceVersion - 1));
  }
});
