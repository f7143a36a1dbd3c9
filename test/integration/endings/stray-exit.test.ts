import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { ContainerState } from '../../../src/cri/gen/api.ts';
import { isAlive, type ProcessKey } from '../../../src/linux/procfs.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { eventually } from '../runtime/daemon-process.ts';
import { container, op, pod, RuntimeFixture } from '../runtime/runtime-fixture.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
/** Ends with 9 when it is asked to, and with nothing else. */
const TRAP = ['sh', '-c', 'trap "exit 9" TERM; touch /tmp/ready; while :; do sleep 0.05; done'];

test(
  'a stray exit file beside a process that lives: RUNNING, over a restart as well, then its true code',
  { skip },
  async () => {
    await using f = await RuntimeFixture.make();
    const leaks = await LeakCheck.begin(f.root.leakRoots());
    const config = pod(f.root, 'stray');
    const sandboxId = await f.runSandbox(config);
    const run = async (name: string): Promise<{ readonly id: string; readonly init: ProcessKey }> => {
      const id = await f.runContainer(sandboxId, config, container(name, TRAP));
      while ((await f.exec(id, 'stat', '/tmp/ready')).exitCode !== 0);
      const { info } = await f.cri.containerStatus(op, { containerId: id, verbose: true });
      return { id, init: (JSON.parse(info['info'] ?? '{}') as { state: { task: ProcessKey } }).state.task };
    };
    const runsOn = async ({ id, init }: { readonly id: string; readonly init: ProcessKey }): Promise<void> => {
      // Longer than from one look to the next.
      await delay(1_500);
      assert.equal((await f.status(id)).state, ContainerState.CONTAINER_RUNNING);
      assert.ok(await isAlive(init), 'nobody has killed it');
    };
    const written = (id: string): string => join(f.root.state, 'exits', id);
    const kept = (id: string): string => join(f.root.data, 'exits', id);
    const watched = await run('watched');
    const restarted = await run('restarted');
    await writeFile(written(watched.id), '0');
    await runsOn(watched);
    await f.restart(async () => {
      for (const file of [written(restarted.id), kept(restarted.id)]) await writeFile(file, '0');
    });
    await f.runtime.recovered;
    for (const one of [watched, restarted]) {
      await runsOn(one);
      assert.equal((await f.exec(one.id, 'echo', 'served')).stdout, 'served\n');
      await f.stop(one.id, 60);
      const { state, exitCode, reason } = await f.status(one.id);
      assert.deepEqual([state, exitCode, reason], [ContainerState.CONTAINER_EXITED, 9, 'Error']);
      await eventually(
        () => readFile(kept(one.id), 'utf8').catch(() => ''),
        (text) => text === '9',
        'the true code in the copy on the disk',
      );
      await f.cri.removeContainer(op, { containerId: one.id });
    }
    await f.endPod(sandboxId);
    await leaks.assertNone();
  },
);
