import assert from 'node:assert/strict';
import { test } from 'node:test';
import { locate, mountsWithin } from './mount-location.ts';
import { mountOf, mountsBelow, mountsOn, parseMountinfo } from './mountinfo.ts';

const TEXT = `20 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,discard
30 20 0:30 / /var/lib/pods/u/with\\040blank rw,nosuid master:3 shared:7 - tmpfs na\\134me rw,size=4k
31 20 8:1 /srv/data//deleted /var/lib/pods/u/old rw - ext4 /dev/sda1 rw
32 20 8:1 /srv/data /var/lib/pods/u/same ro unbindable - ext4 /dev/sda1 rw
33 32 0:33 / /var/lib/pods/u/same/deep rw - tmpfs deep rw
34 30 0:34 / /var/lib/pods/u/with\\040blank rw - tmpfs upper rw
a line that is not one
`;

test('every field, with escapes, peer groups and the mark of deleted sources', () => {
  const infos = parseMountinfo(TEXT);
  assert.equal(infos.length, 6);
  assert.deepEqual(infos[1], {
    ...{
      mountId: 30,
      parentId: 20,
      device: '0:30',
      root: '/',
      mountPoint: '/var/lib/pods/u/with blank',
      deleted: false,
    },
    ...{
      options: ['rw', 'nosuid'],
      shared: 7,
      master: 3,
      fsType: 'tmpfs',
      source: 'na\\me',
      superOptions: ['rw', 'size=4k'],
    },
  });
  assert.deepEqual([infos[2]?.root, infos[2]?.deleted], ['/srv/data', true]);
});

test('the order to unmount in: children first, the uppermost first', () => {
  const infos = parseMountinfo(TEXT);
  const ids = mountsBelow(infos, '/var/lib/pods').map((info) => info.mountId);
  assert.ok(ids.indexOf(33) < ids.indexOf(32));
  assert.ok(ids.indexOf(34) < ids.indexOf(30));
  assert.equal(ids.length, 5);
  assert.deepEqual(
    mountsOn(infos, '/var/lib/pods/u/with blank').map((info) => info.mountId),
    [34, 30],
  );
  assert.deepEqual(mountsBelow(infos, '/var/lib/pods/u/wit'), []);
});

test('a later mount over the parent directory goes before what it hides', () => {
  const hidden = parseMountinfo(`20 1 8:1 / / rw - ext4 a rw
40 20 0:40 / /v/nas/deep rw - tmpfs deep rw
41 20 0:41 / /v/nas rw - tmpfs over rw
`);
  assert.deepEqual(
    mountsBelow(hidden, '/v').map((info) => info.mountId),
    [41, 40],
  );
});

test('which mount a path is on', () => {
  const infos = parseMountinfo(TEXT);
  assert.equal(mountOf(infos, '/var/lib/pods/u/same/x')?.mountId, 32);
  assert.equal(mountOf(infos, '/var/lib/pods/u/with blank')?.mountId, 34);
  assert.equal(mountOf(infos, '/etc')?.mountId, 20);
});

test('a mount is found on a directory by whatever way it was made', () => {
  const infos = parseMountinfo(TEXT);
  const location = locate(infos, '/srv/data');
  assert.deepEqual(location, { device: '8:1', path: '/srv/data' });
  // Through the bind mount of /srv/data, a tmpfs sits on /srv/data/deep.
  assert.deepEqual(
    mountsWithin(infos, { device: '8:1', path: '/srv/data' }).map((info) => info.mountId),
    [33],
  );
  assert.deepEqual(locate(infos, '/var/lib/pods/u/same'), { device: '8:1', path: '/var/lib/pods/u/same' });
  const container = parseMountinfo(`50 49 0:99 / / rw - overlay overlay rw
51 50 8:1 /srv/data /data rw - ext4 /dev/sda1 rw
52 51 0:52 / /data/nas rw - nfs server:/export rw
53 50 8:1 /srv/gone//deleted /gone rw - ext4 /dev/sda1 rw
54 53 0:54 / /gone/x rw - tmpfs t rw
`);
  assert.deepEqual(
    mountsWithin(container, { device: '8:1', path: '/srv' }).map((info) => info.mountId),
    [52],
  );
});
