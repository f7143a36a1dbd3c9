import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { FakeClock } from '../../lib/fake-clock.ts';
import { silentLog } from '../../lib/log.ts';
import { testPod } from '../pods/test-pod.ts';
import { ActualState } from './actual-state.ts';
import { DesiredState, volumeKey } from './desired-state.ts';
import { OperationExecutor } from './operation-executor.ts';
import { planVolumes } from './plan-volumes.ts';
import type { VolumePlugin } from './plugin.ts';
import { populate } from './populator.ts';

const plugin: VolumePlugin = {
  name: 'test',
  refreshes: false,
  supports: () => true,
  setUp: () => Promise.resolve('/x'),
  tearDown: () => Promise.resolve({ kind: 'gone' }),
};

function podOf(uid: string, ...volumes: string[]): ReturnType<typeof testPod> {
  return testPod({ volumes: volumes.map((name) => ({ name, emptyDir: {} })) }, { uid });
}

await test('carried out, a plan leaves nothing to do, and never unmounts what is wanted or closed off', () => {
  const names = fc.subarray(['v1', 'v2', 'v3']);
  const world = fc.dictionary(fc.constantFrom('p1', 'p2', 'p3'), names);
  fc.assert(
    fc.property(world, world, fc.subarray(['p1', 'p2', 'p3']), (wanted, there, open) => {
      const desired = new DesiredState();
      const actual = new ActualState();
      const demands = Object.entries(wanted).map(([uid, volumes]) => ({
        pod: podOf(uid, ...volumes),
        wantsVolumes: true,
      }));
      populate(desired, demands, [plugin]);
      for (const [podUid, volumes] of Object.entries(there)) {
        for (const name of volumes) actual.set({ podUid, name, pluginName: 'test', state: { kind: 'uncertain' } });
      }
      const gate = (uid: string): boolean => open.includes(uid);
      const plan = planVolumes(desired, actual, gate, 0);
      for (const { podUid, name } of plan.unmount) {
        assert.ok(!desired.has(podUid, name) && gate(podUid));
        actual.delete(podUid, name);
      }
      for (const { pod, volume } of plan.mount) {
        const state = { kind: 'mounted', path: '/x', refreshAtMs: 0 } as const;
        actual.set({ podUid: pod.uid, name: volume.name, pluginName: 'test', state });
      }
      assert.deepEqual(planVolumes(desired, actual, gate, 0), { unmount: [], mount: [] });
    }),
  );
});

await test('the populator keeps a pod until nothing of it runs', () => {
  const desired = new DesiredState();
  const pod = podOf('p1', 'v1');
  assert.equal(populate(desired, [{ pod, wantsVolumes: true }], [plugin]), true);
  assert.equal(populate(desired, [{ pod, wantsVolumes: true }], [plugin]), false);
  assert.equal(desired.has('p1', 'v1'), true);
  assert.equal(populate(desired, [{ pod, wantsVolumes: false }], [plugin]), true);
  assert.equal(desired.has('p1', 'v1'), false);
});

await test('one operation at a time for a volume of a pod, others side by side, failures back off', async () => {
  const clock = new FakeClock();
  const executor = new OperationExecutor({ clock, log: silentLog, onDone: () => undefined });
  const gate = Promise.withResolvers<boolean>();
  const operation = (uid: string, run: () => Promise<boolean>): Parameters<OperationExecutor['start']>[0] => ({
    key: volumeKey(uid, 'v'),
    name: 'volume_unmount',
    timeoutMs: 60_000,
    run,
  });
  assert.equal(executor.start(operation('p1', () => gate.promise)), 'started');
  assert.equal(executor.start(operation('p1', () => gate.promise)), 'running');
  assert.equal(executor.start(operation('p2', () => Promise.reject(new Error('no')))), 'started');
  await clock.advance(0);
  assert.equal(executor.start(operation('p2', () => Promise.resolve(true))), 'in-backoff');
  assert.equal(executor.isRunning(volumeKey('p1', 'v')), true);
  await clock.advance(500);
  assert.equal(executor.start(operation('p2', () => Promise.resolve(true))), 'started');
  gate.resolve(true);
  await clock.advance(0);
  assert.equal(executor.isRunning(volumeKey('p1', 'v')), false);
  assert.equal(executor.nextRetryMs(), undefined);
});
