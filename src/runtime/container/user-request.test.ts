import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { UserRequest } from '../oci/user.ts';
import { checkUser } from './user-request.ts';

test('a user that can be, as far as that is known without the image', () => {
  const largest = 2 ** 31 - 1;
  const fine: UserRequest[] = [
    {},
    { uid: largest, gid: largest, supplementalGroups: [largest] },
    { username: 'web', gid: 5 },
    { username: 'web:staff' },
    { username: '33:34' },
  ];
  for (const request of fine) checkUser(request);
  const wrong: UserRequest[] = [
    { gid: 5 },
    { uid: -1 },
    { uid: largest + 1 },
    { uid: 1, gid: largest + 1 },
    { supplementalGroups: [largest + 1] },
    { username: String(largest + 1) },
    { username: `web:${String(largest + 1)}` },
    { username: 'web:staff', gid: 5 },
    { username: 'a:b:c' },
    { username: ':staff' },
    { username: 'web:' },
  ];
  for (const request of wrong) {
    assert.throws(() => checkUser(request), { kind: 'InvalidArgument' }, JSON.stringify(request));
  }
});
