import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isKind } from '../../lib/errors.ts';
import type { WatchOptions } from '../client.ts';
import type { Pod, WatchEvent } from '../objects.ts';
import { examplePod, openFakeApi, type FakeApi } from './fake-api.ts';
import { watchObjects } from './watch-objects.ts';

function collect(api: FakeApi, options: WatchOptions): { seen: string[]; ended: Promise<void>; stop(): void } {
  const controller = new AbortController();
  const seen: string[] = [];
  const ended = (async (): Promise<void> => {
    for await (const event of api.kube.watch({ ...api.op, signal: controller.signal }, 'pods', options)) {
      seen.push(
        `${event.type} ${event.type === 'BOOKMARK' ? event.object.metadata.resourceVersion : event.object.metadata.name}`,
      );
    }
  })();
  return { seen, ended, stop: () => controller.abort() };
}

async function relabel(api: FakeApi, name: string, label: string | null): Promise<Pod> {
  return await api.kube.patch(
    api.op,
    'pods',
    { namespace: 'default', name },
    { type: 'merge', body: { metadata: { labels: { app: label } } } },
  );
}

test('from the start: what is there, then what happens; it ends quietly', async () => {
  const api = await openFakeApi();
  await api.kube.create(api.op, 'pods', examplePod('a'));
  const watch = collect(api, {});
  await api.clock.advance(0);
  await api.kube.create(api.op, 'pods', examplePod('b'));
  await relabel(api, 'a', 'x');
  await api.clock.advance(0);
  assert.deepEqual(watch.seen, ['ADDED a', 'ADDED b', 'MODIFIED a']);
  watch.stop();
  await watch.ended;
});

test('an object that enters the selection is added, one that leaves it is deleted', async () => {
  const api = await openFakeApi();
  await api.kube.create(api.op, 'pods', examplePod('a'));
  const watch = collect(api, { labelSelector: 'app=web', namespace: 'default' });
  await api.clock.advance(0);
  await relabel(api, 'a', 'other');
  await relabel(api, 'a', 'web');
  await relabel(api, 'a', null);
  await api.clock.advance(0);
  assert.deepEqual(watch.seen, ['ADDED a', 'DELETED a']);
  watch.stop();
  await watch.ended;
});

test('from a version: only what came after it; too old and never reached are 410', async () => {
  const api = await openFakeApi({ history: { events: 2, bytes: 1e6 } });
  await api.kube.create(api.op, 'pods', examplePod('a'));
  const { metadata } = await api.kube.list(api.op, 'pods');
  await api.kube.create(api.op, 'pods', examplePod('b'));
  const watch = collect(api, { resourceVersion: metadata.resourceVersion });
  await api.clock.advance(0);
  assert.deepEqual(watch.seen, ['ADDED b']);
  watch.stop();
  await api.kube.create(api.op, 'pods', examplePod('c'));
  await api.kube.create(api.op, 'pods', examplePod('d'));
  for (const resourceVersion of [metadata.resourceVersion, '99999']) {
    await assert.rejects(collect(api, { resourceVersion }).ended, (error) => isKind(error, 'OutOfRange'));
  }
  await assert.rejects(collect(api, { resourceVersion: 'x' }).ended, (error) => isKind(error, 'InvalidArgument'));
});

test('bookmarks say how far the watch is, time limits end it', async () => {
  const api = await openFakeApi();
  const watch = collect(api, { bookmarks: true, timeoutMs: 150_000 });
  await api.clock.advance(70_000);
  const version = String(api.registry.store.resourceVersion);
  assert.deepEqual(watch.seen, [`BOOKMARK ${version}`]);
  await api.clock.advance(100_000);
  await watch.ended;
  assert.equal(watch.seen.length, 2);
});

test('a streaming list ends with a bookmark that says so', async () => {
  const api = await openFakeApi();
  await api.kube.create(api.op, 'pods', examplePod('a'));
  const controller = new AbortController();
  const events: WatchEvent<unknown>[] = [];
  const request = { sendInitialEvents: true, bookmarks: true };
  for await (const event of watchObjects(api.registry, api.clock, 'pods', request, controller.signal)) {
    events.push(event);
    if (events.length === 2) break;
  }
  assert.deepEqual(
    events.map(({ type }) => type),
    ['ADDED', 'BOOKMARK'],
  );
  assert.match(JSON.stringify(events[1]), /"k8s\.io\/initial-events-end":"true"/);
  assert.equal(api.clock.pendingTimers, 1, 'only the housekeeping is left');
});

test('the API’s end is the end of its watches', async () => {
  const api = await openFakeApi();
  const watch = collect(api, {});
  await api.clock.advance(0);
  api.close();
  await watch.ended;
});

test('one that never reads is cut off, and told to list again', async () => {
  const api = await openFakeApi();
  const queue = api.registry.store.eventsSince(api.registry.store.resourceVersion);
  for (let i = 0; i < 10_001; i++) {
    await api.registry.replaceStatus('namespaces', { name: 'default' }, { metadata: {}, status: { phase: String(i) } });
  }
  await assert.rejects(queue.take(), (error) => isKind(error, 'OutOfRange'));
});
