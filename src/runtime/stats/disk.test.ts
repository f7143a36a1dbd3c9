import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseMountinfo } from '../../linux/mountinfo.ts';
import { mountOf } from './disk.ts';

const INFOS = parseMountinfo(`1 0 254:0 / / rw - ext4 /dev/vda1 rw
2 1 254:1 / /var rw - xfs /dev/vdb rw
3 1 254:2 / /variable rw - xfs /dev/vdc rw
4 1 254:3 / /var rw - btrfs /dev/vdd rw
`);

test('a path is on the deepest mount above it, and of two on one point on the upper one', () => {
  const sourceOf = (path: string): string | undefined => mountOf(INFOS, path)?.source;
  assert.equal(sourceOf('/home/x'), '/dev/vda1');
  assert.equal(sourceOf('/var/lib/gantry'), '/dev/vdd');
  assert.equal(sourceOf('/var'), '/dev/vdd');
  assert.equal(sourceOf('/variable/x'), '/dev/vdc');
  assert.equal(mountOf([], '/'), undefined);
});
