import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hostIds } from './host-ids.ts';

await test('whose ids are whose: own subordinate ids, those of others, users and groups', () => {
  const subuid = 'ann:100000:65536\n# nobody\ngantry:524288:131072\n\nbad:x:1\nroot:0x1:2\n';
  const subgid = 'gantry:524288:65536\nann:200000:1';
  const passwd = 'root:x:0:0:root:/root:/bin/sh\nlate:x:70000:70000::/:\n+::::::\n';
  const group = 'root:x:0:\nstaff:x:71000:ann,late';
  assert.deepEqual(hostIds('gantry', { subuid, subgid, passwd, group }), {
    granted: { uids: [{ first: 524_288, count: 131_072 }], gids: [{ first: 524_288, count: 65_536 }] },
    taken: [
      { first: 100_000, count: 65_536 },
      { first: 200_000, count: 1 },
      { first: 0, count: 1 },
      { first: 70_000, count: 1 },
      { first: 0, count: 1 },
      { first: 71_000, count: 1 },
    ],
  });
  assert.deepEqual(hostIds('gantry', {}), { granted: { uids: [], gids: [] }, taken: [] });
});
