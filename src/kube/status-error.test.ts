import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errnoOf, GantryError, isKind } from '../lib/errors.ts';
import { AMPLE_ROOM, refuseWithoutRoom } from '../lib/store/disk-room.ts';
import { errorOfStatus, statusOf } from './status-error.ts';

function thrown(fail: () => void): unknown {
  try {
    fail();
  } catch (error) {
    return error;
  }
  return undefined;
}

test('a full disk is not too many requests, on either side of the wire', () => {
  const full = thrown(() =>
    refuseWithoutRoom({ ...AMPLE_ROOM, shortage: 'the disk of /x is full' }, 'no new pods are taken'),
  );
  assert.equal(errnoOf(full), 'ENOSPC');
  const status = statusOf(full);
  assert.equal(status.code, 507);
  assert.equal(status.reason, 'InsufficientStorage');
  assert.equal(status.message, 'no new pods are taken: the disk of /x is full');
  assert.ok(isKind(errorOfStatus(status), 'ResourceExhausted'));
  assert.equal(statusOf(new GantryError('ResourceExhausted', 'slower, please')).reason, 'TooManyRequests');
});
