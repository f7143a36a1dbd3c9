import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Op } from '../lib/abort.ts';
import { silentLog } from '../lib/log.ts';
import { Container, ListContainersResponse, StreamContainersResponse } from './gen/api.ts';
import { runtimeStreams, type RuntimeLists } from './stream-lists.ts';

const op: Op = { signal: new AbortController().signal, log: silentLog };
const LIMIT = 4 * 1024 * 1024;
const NO_FILTER = { filter: undefined };

const nothing: RuntimeLists = {
  listPodSandbox: () => Promise.resolve({ items: [] }),
  listContainers: () => Promise.resolve({ containers: [] }),
  listContainerStats: () => Promise.resolve({ stats: [] }),
  listPodSandboxStats: () => Promise.resolve({ stats: [] }),
  listPodSandboxMetrics: () => Promise.resolve({ podMetrics: [] }),
};

const containerOf = (id: string, noteBytes: number): Container =>
  Container.fromPartial({ id, annotations: { note: 'x'.repeat(noteBytes) } });

test('the parts together are the list, each item once, and no part is too big for any client', async () => {
  const sizes = fc.array(fc.oneof(fc.nat(200), fc.integer({ min: 100_000, max: 1_500_000 })), { maxLength: 30 });
  await fc.assert(
    fc.asyncProperty(sizes, async (bytes) => {
      const containers = bytes.map((size, index) => containerOf(`c${String(index)}`, size));
      const streams = runtimeStreams({ ...nothing, listContainers: () => Promise.resolve({ containers }) });
      const got: Container[] = [];
      for await (const part of streams.streamContainers(op, NO_FILTER)) {
        assert.notEqual(part.containers.length, 0);
        assert.ok(StreamContainersResponse.encode(part).finish().length < LIMIT);
        got.push(...part.containers);
      }
      assert.deepEqual(got, containers);
    }),
    { numRuns: 30 },
  );
});

test('a list that no message could hold goes through', async () => {
  const containers = Array.from({ length: 100 }, (_, index) => containerOf(`c${String(index)}`, 200_000));
  assert.ok(ListContainersResponse.encode({ containers }).finish().length > LIMIT);
  const streams = runtimeStreams({ ...nothing, listContainers: () => Promise.resolve({ containers }) });
  const parts = await Array.fromAsync(streams.streamContainers(op, NO_FILTER));
  assert.ok(parts.length > 10);
});

test('nothing is the end at once, and a filter is handed on', async () => {
  const asked: unknown[] = [];
  const streams = runtimeStreams({
    ...nothing,
    listPodSandbox: (_op, request) => {
      asked.push(request);
      return Promise.resolve({ items: [] });
    },
  });
  const request = { filter: { id: 'abc', state: undefined, labelSelector: {} } };
  assert.deepEqual(await Array.fromAsync(streams.streamPodSandboxes(op, request)), []);
  assert.deepEqual(asked, [request]);
  assert.deepEqual(await Array.fromAsync(streams.streamContainerStats(op, NO_FILTER)), []);
  assert.deepEqual(await Array.fromAsync(streams.streamPodSandboxStats(op, NO_FILTER)), []);
  assert.deepEqual(await Array.fromAsync(streams.streamPodSandboxMetrics(op, {})), []);
});

test('what the list throws the stream throws', async () => {
  const streams = runtimeStreams({ ...nothing, listContainers: () => Promise.reject(new Error('no')) });
  await assert.rejects(Array.fromAsync(streams.streamContainers(op, NO_FILTER)), /no/);
});

test('a client that has gone is sent nothing more', async () => {
  const leaving = new AbortController();
  const containers = Array.from({ length: 10 }, (_, index) => containerOf(`c${String(index)}`, 1_000_000));
  const streams = runtimeStreams({ ...nothing, listContainers: () => Promise.resolve({ containers }) });
  const got: string[] = [];
  await assert.rejects(async () => {
    for await (const part of streams.streamContainers({ ...op, signal: leaving.signal }, NO_FILTER)) {
      got.push(...part.containers.map(({ id }) => id));
      leaving.abort(new Error('gone'));
    }
  }, /gone/);
  assert.deepEqual(got, ['c0']);
});
