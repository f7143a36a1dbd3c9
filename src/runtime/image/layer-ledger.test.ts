import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Database } from '../../lib/store/store-thread.ts';
import { digestOf } from './digest.ts';
import { FakeLayerStore } from './fake-layer-store.ts';
import { LayerLedger } from './layer-ledger.ts';

const DISK: Database = {
  write: () => Promise.resolve(),
  read: () => Promise.resolve([]),
  close: () => Promise.resolve(),
};

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
  await ledger.remember(digestOf('blob'), diffId);
  assert.equal(ledger.sizeOf(diffId), 4096);
  assert.deepEqual(ledger.totals(), { sizeBytes: 4096, inodes: 7 });
});
