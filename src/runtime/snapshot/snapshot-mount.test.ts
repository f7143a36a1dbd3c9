import assert from 'node:assert/strict';
import { test } from 'node:test';
import { snapshotOfMount } from './snapshot-mount.ts';

test('the overlays that are ours are told by their folders, writable and read-only ones', () => {
  const overlay = (...superOptions: string[]): string | undefined =>
    snapshotOfMount({ fsType: 'overlay', superOptions });
  assert.equal(overlay('rw', 'lowerdir=/l/1/fs', 'upperdir=/s/a/upper', 'workdir=/s/a/work'), '/s/a');
  assert.equal(overlay('ro', 'lowerdir=/s/a/upper:/l/1/fs'), '/s/a');
  assert.equal(overlay('ro', 'lowerdir+=/s/a/upper', 'lowerdir+=/l/1/fs'), '/s/a');
  assert.equal(overlay('ro', 'lowerdir=/s/a\\:b/upper:/l/1/fs'), '/s/a:b');
  for (const others of [
    ['rw', 'lowerdir=/l/1/fs', 'upperdir=/s/a/upper', 'workdir=/elsewhere/work'],
    ['rw', 'lowerdir=/s/a/upper', 'upperdir=/x/diff', 'workdir=/x/work'],
    ['ro', 'lowerdir=/l/1/fs:/s/a/upper'],
    ['ro', 'lowerdir=/s/a/upperdir:/l/1/fs'],
    ['rw'],
  ]) {
    assert.equal(overlay(...others), undefined, others.join());
  }
  assert.equal(snapshotOfMount({ fsType: 'tmpfs', superOptions: ['lowerdir=/s/a/upper'] }), undefined);
});
