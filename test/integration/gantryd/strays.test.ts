import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../../src/lib/clock.ts';
import { Cgroups, detectCgroups } from '../../../src/linux/cgroups.ts';
import { eventually, Gantryd } from '../../support/gantryd.ts';

const skip = process.getuid?.() !== 0 && 'needs root';

test('what a killed daemon had at work ends before the next one serves', { skip }, async () => {
  await using daemon = await Gantryd.make({ flags: ['--runtime-only'] });
  const { cgroupParent } = daemon.root;
  const cgroups = new Cgroups({ clock: systemClock, host: await detectCgroups() });
  await cgroups.ensureParent(cgroupParent);
  const leaf = join(cgroupParent, 'daemon');
  await cgroups.create(leaf);
  // One that is at work and will be done, and one that hangs.
  const ends = await Promise.all(
    ['1', '600'].map(async (seconds) => {
      const child = spawn('sleep', [seconds], { stdio: 'ignore' });
      await once(child, 'spawn');
      await cgroups.moveProcess(leaf, child.pid ?? 0);
      const state: { end?: string } = {};
      child.once('exit', (code, signal) => (state.end = signal ?? String(code)));
      return state;
    }),
  );
  await daemon.start({ agent: false });
  assert.deepEqual(
    ends.map(({ end }) => end),
    ['0', 'SIGKILL'],
  );
});

test('what a daemon was writing when it was killed is cleared away by the next one', { skip }, async () => {
  await using daemon = await Gantryd.make({ flags: ['--runtime-only'] });
  const { state } = daemon.root;
  for (const name of ['gantryd.pid.0123456789ab.tmp', 'gantryd.pid.ba9876543210.tmp', 'gantryd.pid.mine.tmp']) {
    await writeFile(join(state, name), '1 ');
  }
  await daemon.start({ agent: false });
  await eventually(
    () => readdir(state),
    (names) => names.includes('gantryd.pid'),
    'a pid file',
  );
  const left = (await readdir(state)).filter((name) => name.startsWith('gantryd.pid'));
  assert.deepEqual(left.sort(), ['gantryd.pid', 'gantryd.pid.mine.tmp']);
});
