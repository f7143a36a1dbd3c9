import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PodStatus } from '../../kube/objects.ts';
import type { RuntimeContainer, RuntimeContainerState } from '../pleg/pod-runtime-state.ts';
import { testPod } from '../pods/test-pod.ts';
import type { Waiting } from './container-status.ts';
import { podStatus, sameStatus, type PodStatusInput } from './pod-status.ts';

const running: RuntimeContainerState = { kind: 'running', startedAtMs: 1_000 };
const failed: RuntimeContainerState = {
  kind: 'exited',
  exitCode: 7,
  reason: 'Error',
  message: '',
  startedAtMs: 1_000,
  finishedAtMs: 2_000,
};
const done: RuntimeContainerState = { ...failed, exitCode: 0, reason: 'Completed' };

function run(name: string, state: RuntimeContainerState, attempt = 0): RuntimeContainer {
  return {
    id: `${name}${String(attempt)}`,
    name,
    sandboxId: 's0',
    attempt,
    image: 'i',
    imageId: 'sha256:1',
    hash: '',
    mounts: [],
    crashes: 0,
    bootId: 'b',
    createdAtMs: 0,
    state,
  };
}

const mounts = [
  { containerPath: '/data', readOnly: false, recursiveReadOnly: false },
  { containerPath: '/conf', readOnly: true, recursiveReadOnly: true },
  { containerPath: '/model', readOnly: true, recursiveReadOnly: false, imageRef: 'sha256:2' },
  { containerPath: '/etc/hosts', readOnly: false, recursiveReadOnly: false },
];

function status(containers: RuntimeContainer[], more: Partial<PodStatusInput> = {}): PodStatus {
  const pod = testPod({
    containers: [
      { name: 'a', image: 'i' },
      { name: 'b', image: 'i' },
    ],
  });
  return podStatus({
    pod,
    state: {
      uid: pod.uid,
      sandboxes: [{ id: 's0', attempt: 0, ready: true, createdAtMs: 0, ips: ['10.0.0.2'] }],
      containers,
    },
    waiting: new Map(),
    ending: false,
    hostIps: ['192.0.2.1'],
    runtimeName: 'gantry',
    nowWallMs: 5_000,
    previous: undefined,
    ...more,
  });
}

function ready(of: PodStatus): string | undefined {
  return of.conditions?.find(({ type }) => type === 'Ready')?.status;
}

await test('phase and readiness', () => {
  const crash = new Map<string, Waiting>([['a', { reason: 'CrashLoopBackOff' }]]);
  const rows: [string, PodStatus, string, string][] = [
    ['nothing yet', status([]), 'Pending', 'False'],
    ['one of two runs', status([run('a', running)]), 'Pending', 'False'],
    ['both run', status([run('a', running), run('b', running)]), 'Running', 'True'],
    ['one crashed', status([run('a', failed), run('b', running)], { waiting: crash }), 'Running', 'False'],
    ['over, well', status([run('a', done), run('b', done)], { outcome: 'Succeeded' }), 'Succeeded', 'False'],
    ['over, badly', status([run('a', done), run('b', failed)], { outcome: 'Failed' }), 'Failed', 'False'],
    ['ending, still alive', status([run('a', running), run('b', done)], { ending: true }), 'Running', 'False'],
    ['ended', status([run('a', failed), run('b', done)], { ending: true }), 'Failed', 'False'],
  ];
  for (const [name, of, phase, isReady] of rows) assert.deepEqual([of.phase, ready(of)], [phase, isReady], name);
});

await test('a container in back-off waits, and its last state says how it ended', () => {
  const waiting = new Map<string, Waiting>([['a', { reason: 'CrashLoopBackOff', message: 'm' }]]);
  const [a] = status([run('a', failed, 3), run('b', running)], { waiting }).containerStatuses ?? [];
  assert.deepEqual(a?.state, { waiting: { reason: 'CrashLoopBackOff', message: 'm' } });
  assert.equal(a.lastState?.terminated?.exitCode, 7);
  assert.equal(a.restartCount, 3);
});

await test('a restart count never goes back, and a lost end is no made-up code', () => {
  const first = status([run('a', running, 4), run('b', running)]);
  const lost = status([run('b', done)], { previous: first, ending: true });
  const [a] = lost.containerStatuses ?? [];
  assert.equal(a?.restartCount, 4);
  assert.equal(a.state?.terminated?.reason, 'ContainerStatusUnknown');
  assert.equal(a.state.terminated.exitCode, 255);
});

await test('the same state later is the same status', () => {
  const containers = [run('a', running), run('b', running)];
  const first = status(containers);
  const again = status(containers, { previous: first, nowWallMs: 900_000 });
  assert.ok(sameStatus(first, again));
  const changed = status([run('a', failed), run('b', running)], { previous: first, nowWallMs: 900_000 });
  const time = (of: PodStatus, wanted: string): unknown =>
    of.conditions?.find(({ type }) => type === wanted)?.lastTransitionTime;
  assert.notEqual(time(changed, 'Ready'), time(first, 'Ready'));
  assert.equal(time(changed, 'PodScheduled'), time(first, 'PodScheduled'));
});

await test('the address is kept when the sandbox is gone', () => {
  const first = status([run('a', running), run('b', running)]);
  const after = status([run('a', done), run('b', done)], {
    previous: first,
    outcome: 'Succeeded',
    state: { uid: 'u', sandboxes: [], containers: [run('a', done), run('b', done)] },
  });
  assert.equal(after.podIP, '10.0.0.2');
});

await test('what has come of the mounts: read-only as it was made, and which image; whose the process is', () => {
  const volumeMounts = ['data', 'conf', 'model', 'late'].map((name) => ({ name, mountPath: `/${name}/` }));
  const pod = testPod({ containers: [{ name: 'a', image: 'i', volumeMounts }] });
  const user = { uid: 1000, gid: 0, supplementalGroups: [0, 7] };
  const { containerStatuses } = status([{ ...run('a', running), mounts, user }], { pod });
  const [first] = containerStatuses ?? [];
  assert.deepEqual(first?.user, { linux: user });
  assert.deepEqual(first.volumeMounts, [
    { name: 'data', mountPath: '/data/' },
    { name: 'conf', mountPath: '/conf/', readOnly: true, recursiveReadOnly: 'Enabled' },
    {
      ...{ name: 'model', mountPath: '/model/', readOnly: true, recursiveReadOnly: 'Disabled' },
      volumeStatus: { image: { imageRef: 'sha256:2' } },
    },
  ]);
});
