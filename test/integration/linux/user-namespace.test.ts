import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { systemClock } from '../../../src/lib/clock.ts';
import { isAlive, processIdentity } from '../../../src/linux/procfs.ts';

const needsRoot = { skip: process.getuid?.() !== 0 && 'needs root' };
const LAUNCH = new URL('../../../bin/launch', import.meta.url).pathname;
const PROGRAM = 'test/integration/linux/held-namespaces.ts';
/** The next daemon waits for what an earlier one has at work. */
const SOON_MS = 2_000;

test(
  'who holds the namespaces of a pod until they are pinned ends with a daemon that is killed',
  needsRoot,
  async () => {
    const daemon = spawn(LAUNCH, [PROGRAM], { stdio: ['ignore', 'pipe', 'inherit'] });
    const exited = once(daemon, 'exit');
    const [line] = (await once(createInterface({ input: daemon.stdout }), 'line')) as [string];
    const holder = await processIdentity(Number(line));
    assert.ok(holder);
    await systemClock.sleep(100);
    assert.ok(await isAlive(holder));
    daemon.kill('SIGKILL');
    await exited;
    const endMs = performance.now() + SOON_MS;
    while (await isAlive(holder)) {
      assert.ok(performance.now() < endMs, `${holder.comm} still runs`);
      await systemClock.sleep(20);
    }
  },
);
