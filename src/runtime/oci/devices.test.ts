import assert from 'node:assert/strict';
import { test } from 'node:test';
import { devicesAt, splitDeviceNumber } from './devices.ts';

test('device numbers', () => {
  assert.deepEqual(splitDeviceNumber(0x103n), { major: 1, minor: 3 });
  assert.deepEqual(splitDeviceNumber(0x8001n), { major: 128, minor: 1 });
  assert.deepEqual(splitDeviceNumber(0x10_0812n), { major: 8, minor: 0x112 });
});

test('a node, a folder, neither', async () => {
  const [device] = await devicesAt('/dev/null', '/dev/x', 'rw');
  assert.deepEqual([device?.containerPath, device?.device.major, device?.device.minor], ['/dev/x', 1, 3]);
  await assert.rejects(devicesAt('/dev/no-such-device', '/dev/x', 'r'), /no such file/);
  await assert.rejects(devicesAt('/proc/self/status', '/dev/x', 'r'), /neither a device/);
});
