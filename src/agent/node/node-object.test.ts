import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nodeObject, type NodeInput } from './node-object.ts';

const INPUT: NodeInput = {
  name: 'box',
  hostIps: ['10.0.0.1'],
  cpus: 2,
  memoryBytes: 4096,
  diskBytes: 8192,
  hugePages: new Map([[2 * 1024 * 1024, 0]]),
  machine: { architecture: 'amd64', kernelVersion: '6.12', osImage: 'Debian', machineId: 'm', bootId: 'b' },
  runtimeVersion: 'gantry://0.1.0',
  agentVersion: 'gantry-0.1.0',
  runtimeHandlers: [],
  features: { supplementalGroupsPolicy: false },
  problems: [],
  nowWallMs: 1_000,
  previous: undefined,
};

test('what the runtime can is on the node, by handler', () => {
  const runtimeHandlers = [
    { name: '', features: { recursiveReadOnlyMounts: true, userNamespaces: true } },
    { name: 'runc', features: { recursiveReadOnlyMounts: true, userNamespaces: false } },
  ];
  const { status } = nodeObject({ ...INPUT, runtimeHandlers, features: { supplementalGroupsPolicy: true } });
  assert.deepEqual(status?.runtimeHandlers, runtimeHandlers);
  assert.deepEqual(status.features, { supplementalGroupsPolicy: true });
});

test('ready unless something is wrong; a network that is missing is the reason by its own name', () => {
  const networkProblem = { reason: 'NetworkPluginNotReady', message: 'no CNI configuration' };
  const cases: readonly (readonly [Partial<NodeInput>, status: string, reason: string, message: RegExp])[] = [
    [{}, 'True', 'KubeletReady', /ready/],
    [{ networkProblem }, 'False', 'NetworkPluginNotReady', /^no CNI configuration$/],
    [{ problems: ['PLEG'] }, 'False', 'KubeletNotReady', /^PLEG$/],
    [{ problems: ['PLEG'], networkProblem }, 'False', 'KubeletNotReady', /NetworkPluginNotReady: .*; PLEG$/],
  ];
  for (const [more, wanted, reason, message] of cases) {
    const ready = nodeObject({ ...INPUT, ...more }).status?.conditions?.find(({ type }) => type === 'Ready');
    assert.deepEqual([ready?.status, ready?.reason], [wanted, reason]);
    assert.match(ready?.message ?? '', message);
  }
});

test('a condition keeps the time of its last change while it says the same', () => {
  const first = nodeObject(INPUT);
  const previous = {
    ...first,
    metadata: { ...first.metadata, name: 'box', uid: 'u', resourceVersion: '1', creationTimestamp: 't' },
  };
  const later = { ...INPUT, nowWallMs: 61_000, previous };
  const of = (input: NodeInput, type: string): readonly (string | undefined)[] => {
    const found = nodeObject(input).status?.conditions?.find((condition) => condition.type === type);
    return [found?.lastTransitionTime, found?.lastHeartbeatTime];
  };
  assert.deepEqual(of(later, 'Ready'), ['1970-01-01T00:00:01Z', '1970-01-01T00:01:01Z']);
  assert.deepEqual(of({ ...later, diskShortage: 'full' }, 'DiskPressure'), [
    '1970-01-01T00:01:01Z',
    '1970-01-01T00:01:01Z',
  ]);
});
