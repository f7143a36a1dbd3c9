import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { FakeClock } from '../../lib/fake-clock.ts';
import { silentLog } from '../../lib/log.ts';
import { PodPaths } from '../pods/paths.ts';
import { VolumeManager } from './volume-manager.ts';

await test('a pass at once, then a second of rest after each, none when poked twice or stopped', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'gt-volumes-'));
  const clock = new FakeClock();
  const passes: number[] = [];
  const manager = new VolumeManager({
    plugins: [],
    paths: new PodPaths(join(directory, 'pods'), join(directory, 'logs')),
    clock,
    log: silentLog,
    demands: () => {
      passes.push(clock.monotonicMs());
      // Whoever pokes while a pass is under way gets one more after it, not one beside it.
      if (passes.length === 3) for (let pokes = 0; pokes < 5; pokes++) manager.poke();
      return [];
    },
    mayTearDown: () => true,
    onNews: () => undefined,
    onDirectoryGone: () => undefined,
  });
  try {
    await clock.advance(5_000);
    assert.deepEqual(passes, [], 'not before it is told that all pods are known');
    await manager.start();
    await clock.advance(3_500);
    assert.deepEqual(passes, [5_000, 6_000, 7_000, 7_000, 8_000]);
    manager.stop();
    await clock.advance(10_000);
    assert.equal(passes.length, 5);
  } finally {
    await rm(directory, { recursive: true });
  }
});
