import assert from 'node:assert/strict';
import { test } from 'node:test';
import { containerOfSnapshot, isVolumeName, RuntimePaths, volumeSnapshotId } from './paths.ts';

test('an OCI runtime is told by its state folder, and nothing else is taken for one', () => {
  const paths = new RuntimePaths('/root', '/state');
  assert.equal(paths.ociRuntimeOf(paths.ociState('crun')), 'crun');
  for (const path of ['/state/oci-', '/state/exec', '/elsewhere/oci-crun', '/state/oci-crun/id']) {
    assert.equal(paths.ociRuntimeOf(path), undefined, path);
  }
});

test('snapshots and mount points of image volumes are told by their names', () => {
  const id = 'ab'.repeat(32);
  assert.equal(containerOfSnapshot(id), id);
  assert.equal(containerOfSnapshot(volumeSnapshotId(id, 12)), id);
  for (const other of ['', 'v0', `${id}-v`, `${id}-vx`, `${id}0`, `x${id}-v0`]) {
    assert.equal(containerOfSnapshot(other), undefined, other);
  }
  const paths = new RuntimePaths('/root', '/state').container(id);
  assert.equal(paths.volume(3), `${paths.bundle}/volume-3`);
  assert.ok(isVolumeName('volume-3'));
  for (const other of ['rootfs', 'volume-', 'volume-x', 'volume', 'volume-1/2']) assert.ok(!isVolumeName(other), other);
});
