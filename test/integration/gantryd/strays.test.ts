import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../../src/lib/clock.ts';
import { Cgroups, detectCgroups } from '../../../src/linux/cgroups.ts';
import { Gantryd } from '../../support/gantryd.ts';

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
