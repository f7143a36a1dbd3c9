import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Op } from '../../lib/abort.ts';
import { FakeClock } from '../../lib/fake-clock.ts';
import { silentLog } from '../../lib/log.ts';
import { DiskUse, type KeptTree } from './disk-use.ts';
import { LayerUsage } from './layer-usage.ts';

const op: Op = { signal: new AbortController().signal, log: silentLog };

function make(sizes: Record<string, number>, layers: () => KeptTree[], snapshots: () => KeptTree[]) {
  const clock = new FakeClock();
  const walked: string[] = [];
  const usage = (): LayerUsage =>
    new LayerUsage({
      clock,
      background: op,
      walk: (_op, id) => {
        walked.push(id);
        const bytes = sizes[id];
        return bytes === undefined ? new Promise(() => undefined) : Promise.resolve({ bytes, inodes: 1 });
      },
    });
  const use = new DiskUse({
    images: { usage: usage(), list: layers },
    containers: { usage: usage(), list: () => Promise.resolve(snapshots()) },
  });
  return { clock, use, walked };
}

test('what layers take and what containers have written are added up', async () => {
  const layers = [
    { id: 'l1', still: true },
    { id: 'l2', still: true },
  ];
  const { use, walked } = make(
    { l1: 100, l2: 20, c1: 3 },
    () => layers,
    () => [{ id: 'c1', still: false }],
  );
  const sum = { images: { bytes: 120, inodes: 2 }, containers: { bytes: 3, inodes: 1 } };
  assert.deepEqual(await use.look(op), sum);
  assert.deepEqual(await use.look(op), sum);
  assert.deepEqual(walked.sort(), ['c1', 'l1', 'l2'], 'each was walked once');
});

test('a tree that takes long to walk is told of as it was thought of', async () => {
  const { clock, use } = make(
    { l1: 100 },
    () => [
      { id: 'l1', still: true },
      { id: 'slow', still: true, assumed: { bytes: 7, inodes: 2 } },
    ],
    () => [{ id: 'slower', still: false }],
  );
  const looked = use.look(op);
  await clock.advance(1_000);
  assert.deepEqual(await looked, { images: { bytes: 107, inodes: 3 }, containers: { bytes: 0, inodes: 0 } });
});

test('what is gone does not count, and is walked anew if it comes again', async () => {
  let layers = [{ id: 'l1', still: true }];
  const { use, walked } = make(
    { l1: 100 },
    () => layers,
    () => [],
  );
  await use.look(op);
  layers = [];
  assert.equal((await use.look(op)).images.bytes, 0);
  layers = [{ id: 'l1', still: true }];
  assert.equal((await use.look(op)).images.bytes, 100);
  assert.deepEqual(walked, ['l1', 'l1']);
});
