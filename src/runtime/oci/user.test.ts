import assert from 'node:assert/strict';
import { test } from 'node:test';
import { resolveUser, type UserRequest } from './user.ts';

const files = {
  passwd:
    'root:x:0:0:root:/root:/bin/sh\nweb:x:33:34:Web:/var/www:/bin/false\nbroken:x:notanumber:1::/:\n\n1000:x:7:8::/odd:\n',
  group: 'root:x:0:\nweb:x:34:\nstaff:x:50:web,other\naudio:x:29:web\n',
};
const ids = (request: UserRequest) => {
  const { uid, gid, additionalGids } = resolveUser(files, request);
  return [uid, gid, [...additionalGids]];
};

test('who runs', () => {
  assert.deepEqual(ids({}), [0, 0, [0]]);
  assert.deepEqual(ids({ imageUser: 'web' }), [33, 34, [34, 50, 29]]);
  assert.deepEqual(ids({ imageUser: 'web:staff' }), [33, 50, [50, 29]]);
  assert.deepEqual(ids({ imageUser: '33:7' }), [33, 7, [7, 50, 29]]);
  assert.deepEqual(ids({ imageUser: '4711' }), [4711, 0, [0]]);
  assert.deepEqual(ids({ uid: 33 }), [33, 34, [34, 50, 29]]);
  assert.deepEqual(ids({ uid: 4711, gid: 12, supplementalGroups: [13, 12] }), [4711, 12, [12, 13]]);
  assert.deepEqual(ids({ username: 'web', gid: 9, imageUser: 'root:root' }), [33, 9, [9, 50, 29]]);
  assert.deepEqual(ids({ uid: 33, groupsPolicy: 'strict', supplementalGroups: [99] }), [33, 34, [34, 99]]);
  assert.deepEqual(ids({ username: 'web:staff', imageUser: 'root:root' }), [33, 50, [50, 29]]);
  assert.deepEqual(ids({ username: '4711:audio' }), [4711, 29, [29]]);
  // A name of digits is a name first.
  assert.deepEqual(ids({ imageUser: '1000' }), [7, 8, [8]]);
  // The image's group belongs to the image's user.
  assert.deepEqual(ids({ uid: 4711, imageUser: 'web:staff' }), [4711, 0, [0]]);
});

test('where home is', () => {
  assert.equal(resolveUser(files, { username: 'web' }).home, '/var/www');
  assert.equal(resolveUser({ passwd: '', group: '' }, {}).home, '/root');
  assert.equal(resolveUser({ passwd: '', group: '' }, { uid: 5 }).home, '/');
});

test('what the image does not know is refused by name', () => {
  assert.throws(() => ids({ username: 'nobody' }), /"nobody": not in the image/);
  assert.throws(() => ids({ imageUser: 'broken' }), /"broken"/);
  assert.throws(() => ids({ imageUser: 'web:nogroup' }), /"nogroup": not in the image/);
  assert.throws(() => ids({ gid: 5 }), /needs a user/);
  assert.throws(() => ids({ uid: -1 }), /not in the image|not a user/);
  assert.throws(() => ids({ username: 'web:nogroup' }), /"nogroup": not in the image/);
  assert.throws(() => ids({ uid: 2 ** 31 }), /not a user/);
});
