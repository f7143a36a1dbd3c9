import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Op } from '../../lib/abort.ts';
import { silentLog } from '../../lib/log.ts';
import type { Database } from '../../lib/store/store-thread.ts';
import { digestOf } from './digest.ts';
import { FakeLayerStore } from './fake-layer-store.ts';
import { LayerLedger } from './layer-ledger.ts';

const DISK: Database = {
  write: () => Promise.resolve(),
  read: () => Promise.resolve([]),
  close: () => Promise.resolve(),
};

const OP: Op = { signal: new AbortController().signal, log: silentLog };

test('a layer of a plain blob, which needs no note to be known, has its size as well', async () => {
  const store = new FakeLayerStore();
  const diffId = digestOf('files');
  const ledger = await LayerLedger.open(DISK, store);
  store.layers.set(diffId, { diffId, sizeBytes: 4096, inodes: 7 });
  assert.equal(ledger.sizeOf(diffId), 4096);
  assert.deepEqual(ledger.totals(), { sizeBytes: 4096, inodes: 7 });
});

test('a layer that a killed daemon unpacked and did not note has its size when it is met again', async () => {
  const store = new FakeLayerStore();
  const diffId = digestOf('files');
  store.layers.set(diffId, { diffId, sizeBytes: 4096, inodes: 7 });
  const ledger = await LayerLedger.open(DISK, store);
  ledger.remember(OP, digestOf('blob'), diffId);
  assert.equal(ledger.sizeOf(diffId), 4096);
  assert.deepEqual(ledger.totals(), { sizeBytes: 4096, inodes: 7 });
});

test('that a layer could not be noted is said, and it is known all the same', async () => {
  const store = new FakeLayerStore();
  const diffId = digestOf('files');
  const said: string[] = [];
  const op: Op = { ...OP, log: { ...silentLog, warn: (_fields, message) => said.push(message) } };
  const full: Database = { ...DISK, write: () => Promise.reject(new Error('disk full')) };
  const ledger = await LayerLedger.open(full, store);
  ledger.add(op, digestOf('blob'), { diffId, sizeBytes: 1, inodes: 1 });
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(said, ['an unpacked layer could not be noted']);
  assert.equal(ledger.diffIdOf(digestOf('blob')), diffId);
});
