import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { HostIds, IdRange } from '../../linux/host-ids.ts';
import { chooseIdBlock, IDS_PER_POD } from './id-block.ts';

const NOTHING: HostIds = { granted: { uids: [], gids: [] }, taken: [] };
const granted = (uids: IdRange[], gids = uids): HostIds => ({ granted: { uids, gids }, taken: [] });

await test('a pod gets a whole block that is nobody else’s, always the same one', () => {
  const range = fc.record({ first: fc.nat(0x7fff_ffff), count: fc.integer({ min: 1, max: 1 << 24 }) });
  fc.assert(
    fc.property(fc.uuid(), fc.array(range, { maxLength: 5 }), (uid, taken) => {
      const first = chooseIdBlock(uid, { ...NOTHING, taken }, new Set());
      assert.equal(first % IDS_PER_POD, 0);
      assert.ok(first >= 524_288 && first + IDS_PER_POD - 1 <= 1_879_048_191);
      for (const other of taken) {
        assert.ok(other.first >= first + IDS_PER_POD || other.first + other.count <= first);
      }
      assert.equal(chooseIdBlock(uid, { ...NOTHING, taken }, new Set()), first);
      assert.notEqual(chooseIdBlock(uid, { ...NOTHING, taken }, new Set([first])), first);
    }),
  );
});

await test('only the administrator’s ids, where some are given', () => {
  const host = granted([{ first: 100_000, count: 200_000 }]);
  const used = new Set<number>();
  for (let n = 0; n < 2; n++) used.add(chooseIdBlock(`pod-${String(n)}`, host, used));
  assert.deepEqual([...used].sort(), [131_072, 196_608]);
  assert.throws(() => chooseIdBlock('pod-3', host, used), /each of the 2 blocks of 65536 ids is taken/);
  const taken = [{ first: 196_700, count: 1 }];
  assert.equal(chooseIdBlock('any', { ...host, taken }, new Set()), 131_072);
});

const useless: [what: string, host: HostIds][] = [
  ['for users alone', granted([{ first: 131_072, count: 65_536 }], [])],
  [
    'not the same for users and groups',
    granted([{ first: 131_072, count: 65_536 }], [{ first: 262_144, count: 65_536 }]),
  ],
  ['no whole block', granted([{ first: 100_000, count: 65_536 }])],
  ['the host’s own', granted([{ first: 0, count: 65_536 }])],
];
for (const [what, host] of useless) {
  await test(`subordinate ids that are of no use: ${what}`, () => {
    assert.throws(
      () => chooseIdBlock('pod', host, new Set()),
      /the lines of gantry in \/etc\/subuid and \/etc\/subgid/,
    );
  });
}
