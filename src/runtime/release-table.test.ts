import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../lib/fake-clock.ts';
import { Lanes } from '../lib/lane.ts';
import { silentLog } from '../lib/log.ts';
import { inCgroupLane, releaseTable, type ReleaseDeps } from './release-table.ts';

const op = { signal: new AbortController().signal, log: silentLog };
const CGROUP = '/kubepods/pod1';

test("a pod's cgroup is not taken away under the sandbox that is made meanwhile", async () => {
  const lanes = new Lanes(new FakeClock(), silentLog);
  const steps: string[] = [];
  const removal = Promise.withResolvers<undefined>();
  const deps = {
    lanes,
    settings: { cgroupParent: '/gantry' },
    sandboxes: { list: () => [] },
    cgroups: {
      killAll: () => Promise.resolve(),
      remove: async () => {
        steps.push('removing');
        await removal.promise;
        steps.push('removed');
      },
    },
  } as unknown as ReleaseDeps;
  const entry = { owner: 'sandbox/a', kind: 'cgroup', key: CGROUP, seq: 1, state: 'held', sinceWallMs: 0, data: {} };
  const released = releaseTable(deps).cgroup(op, entry as Parameters<ReturnType<typeof releaseTable>['cgroup']>[1]);
  const made = inCgroupLane(lanes, CGROUP, () => {
    steps.push('made');
    return Promise.resolve();
  });
  await inCgroupLane(lanes, '/kubepods/pod2', () => Promise.resolve());
  removal.resolve(undefined);
  await Promise.all([released, made]);
  assert.deepEqual(steps, ['removing', 'removed', 'made']);
});

test("Gantry's own cgroups and what is none go with no sandbox, whatever its record says", async () => {
  const touched: string[] = [];
  const touch = (_: unknown, path: string): Promise<void> => Promise.resolve(void touched.push(path));
  const deps = {
    lanes: new Lanes(new FakeClock(), silentLog),
    settings: { cgroupParent: '/gantry' },
    sandboxes: { list: () => [] },
    cgroups: { killAll: touch, remove: touch },
  } as unknown as ReleaseDeps;
  const table = releaseTable(deps);
  for (const key of [
    '/gantry',
    '/gantry/daemon',
    '/gantry/monitors/x',
    '/brk/x\0',
    `/${'x'.repeat(300)}`,
    '/gantry/pod1',
  ]) {
    const entry = { owner: 'sandbox/a', kind: 'cgroup', key, seq: 1, state: 'held', sinceWallMs: 0, data: {} };
    await table.cgroup(op, entry as Parameters<typeof table.cgroup>[1]);
  }
  assert.deepEqual(touched, ['/gantry/pod1', '/gantry/pod1']);
});
