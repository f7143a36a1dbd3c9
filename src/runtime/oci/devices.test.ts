import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLog } from '../../lib/log.ts';
import { listFolder, pathStat } from '../../linux/file-look.ts';
import { devicesAt, splitDeviceNumber } from './devices.ts';

const op = { signal: new AbortController().signal, log: silentLog };
const files = {
  stat: (_op: unknown, path: string) => pathStat(path),
  list: (_op: unknown, path: string) => listFolder(path),
};

test('device numbers', () => {
  assert.deepEqual(splitDeviceNumber(0x103n), { major: 1, minor: 3 });
  assert.deepEqual(splitDeviceNumber(0x8001n), { major: 128, minor: 1 });
  assert.deepEqual(splitDeviceNumber(0x10_0812n), { major: 8, minor: 0x112 });
});

test('a node, a folder, neither', async () => {
  const [device] = await devicesAt(op, files, '/dev/null', '/dev/x', 'rw');
  assert.deepEqual([device?.containerPath, device?.device.major, device?.device.minor], ['/dev/x', 1, 3]);
  await assert.rejects(devicesAt(op, files, '/dev/no-such-device', '/dev/x', 'r'), /no such file/);
  await assert.rejects(devicesAt(op, files, '/proc/self/status', '/dev/x', 'r'), /neither a device/);
});
