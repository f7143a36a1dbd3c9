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
    { uid: 1, username: 'web' },
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

test('which field has an id that is none', () => {
  const cases: [UserRequest, RegExp][] = [
    [{ uid: -1 }, /^run_as_user: -1 /],
    [{ uid: 1, gid: -2 }, /^run_as_group: -2 /],
    [{ supplementalGroups: [1, -3] }, /^supplemental_groups\[1\]: -3 /],
    [{ username: '4294967295' }, /^run_as_username: 4294967295 /],
  ];
  for (const [request, message] of cases) assert.throws(() => checkUser(request), { message });
});
