import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseDeviceName, requestedDevices } from './device-name.ts';

test('names of devices', () => {
  assert.deepEqual(parseDeviceName('vendor.com/gpu=0'), { kind: 'vendor.com/gpu', name: '0' });
  assert.deepEqual(parseDeviceName('v/c_1.x=GPU-a:b.c'), { kind: 'v/c_1.x', name: 'GPU-a:b.c' });
  for (const wrong of [
    '',
    'a',
    'v/c',
    'v=c',
    '/c=x',
    'v/=x',
    'v/c=',
    'v/c/d=x',
    'v/c=a=b',
    '1v/c=x',
    'v-/c=x',
    'v/c=x-',
  ]) {
    assert.throws(() => parseDeviceName(wrong), { kind: 'InvalidArgument' }, wrong);
  }
});

test('what is asked for twice is asked for once', () => {
  const annotations = { 'cdi.k8s.io/b': 'v/c=2, v/c=1', 'cdi.k8s.io/a': 'v/c=3', other: 'no device' };
  assert.deepEqual(requestedDevices(['v/c=1'], annotations), ['v/c=1', 'v/c=3', 'v/c=2']);
  assert.deepEqual(requestedDevices([], {}), []);
  assert.throws(() => requestedDevices([], { 'cdi.k8s.io/a': 'v/c=1,' }), { kind: 'InvalidArgument' });
});
