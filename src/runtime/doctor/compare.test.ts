import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { compare } from './compare.ts';
import { KINDS, type Found, type Inventory, type Kind, type Owned } from './inventory.ts';

const id = 'a'.repeat(64);
const other = 'b'.repeat(64);
const empty: Inventory = { known: new Set(), owned: [], lost: [], found: [], looked: new Set(KINDS) };

interface Row {
  readonly title: string;
  readonly inventory: Partial<Inventory>;
  /** `problem kind remedy` of each finding. */
  readonly expected: readonly string[];
}

const rows: readonly Row[] = [
  { title: 'nothing', inventory: {}, expected: [] },
  {
    title: 'what carries the id of an object that there is has an owner',
    inventory: { known: new Set([id]), found: [{ kind: 'bundle', key: '/c/a', ids: [id] }] },
    expected: [],
  },
  {
    title: 'what the ledger names has an owner',
    inventory: { owned: [owned('cni-bridge', 'br')], found: [{ kind: 'cni-bridge', key: 'br' }] },
    expected: [],
  },
  {
    title: 'what nobody names is an orphan',
    inventory: { known: new Set([other]), found: [{ kind: 'bundle', key: '/c/a', ids: [id] }] },
    expected: ['orphan bundle remove'],
  },
  {
    title: 'a lost owner is one finding, and not each of its things',
    inventory: {
      known: new Set([id]),
      lost: [{ owner: `container/${id}`, holds: ['snapshot a'] }],
      found: [{ kind: 'snapshot', key: id, ids: [id] }],
    },
    expected: ['orphan ledger release'],
  },
  {
    title: 'what could not be released and is tried again is blocked, not promised',
    inventory: { lost: [{ owner: `network/${id}`, holds: ['cni a'], waits: { attempts: 3, lastError: 'no' } }] },
    expected: ['blocked ledger release'],
  },
  {
    title: "others' things are only listed, after all else",
    inventory: {
      found: [
        { kind: 'netns', key: '/n/cni-1', foreign: "another's" },
        { kind: 'exit-file', key: '/e/a' },
      ],
    },
    expected: ['orphan exit-file remove', 'foreign netns -'],
  },
  {
    title: "what is written down and looks like another one's, as after a change of settings, is there",
    inventory: {
      owned: [owned('netns', '/n/1', 'use')],
      found: [{ kind: 'netns', key: '/n/1', foreign: "another Gantry's" }],
    },
    expected: [],
  },
  {
    title: 'a lost pin of a sandbox in use makes it not ready',
    inventory: { owned: [owned('netns', '/n/1', 'use')] },
    expected: ['missing netns not-ready'],
  },
  {
    title: 'a lost pin of a sandbox at rest is struck out',
    inventory: { owned: [owned('netns', '/n/1', 'strike')] },
    expected: ['missing netns strike'],
  },
  {
    title: 'a rule is put back',
    inventory: { owned: [{ kind: 'iptables-rule', key: 'r', owner: 'network/br', needed: 'use' }] },
    expected: ['missing iptables-rule repair-network'],
  },
  {
    title: 'nothing is missing of what could not be looked at',
    inventory: { owned: [owned('netns', '/n/1', 'use')], looked: new Set() },
    expected: [],
  },
  {
    title: 'a monitor that is gone is for its owner to decide on',
    inventory: { owned: [{ kind: 'monitor', key: '/c/a', owner: `container/${id}`, needed: 'use' }] },
    expected: ['missing monitor -'],
  },
  {
    title: 'a folder with a mount of somebody else in it is blocked, not promised; one beside it is not',
    inventory: {
      found: [
        { kind: 'bundle', key: '/c/a', ids: [id] },
        { kind: 'bundle', key: '/c/ab', ids: [other] },
        { kind: 'mount', key: '/c/a/data', ids: [id], foreign: 'ext4 from /dev/sdb' },
      ],
    },
    expected: ['blocked bundle remove', 'orphan bundle remove', 'foreign mount -'],
  },
];

function owned(kind: Kind, key: string, needed?: Owned['needed']): Owned {
  return { kind, key, owner: `sandbox/${id}`, ...(needed === undefined ? {} : { needed }) };
}

for (const { title, inventory, expected } of rows) {
  test(title, () => {
    const findings = compare({ ...empty, ...inventory });
    assert.deepEqual(
      findings.map(({ finding, remedy }) => `${finding.problem} ${finding.kind} ${remedy?.do ?? '-'}`),
      expected,
    );
  });
}

const ids = fc.constantFrom(id, other, 'c'.repeat(64));
const kinds = fc.constantFrom(...KINDS);
const keys = fc.constantFrom('x', 'y', 'z');
const foundThings: fc.Arbitrary<Found> = fc.record(
  { kind: kinds, key: keys, ids: fc.array(ids, { maxLength: 1 }), foreign: fc.constant('others') },
  { requiredKeys: ['kind', 'key'] },
);
const ownedThings: fc.Arbitrary<Owned> = fc.record(
  {
    kind: kinds,
    key: keys,
    owner: ids.map((one) => `sandbox/${one}`),
    needed: fc.constantFrom('use' as const, 'strike' as const),
  },
  { requiredKeys: ['kind', 'key', 'owner'] },
);
const inventories: fc.Arbitrary<Inventory> = fc.record({
  known: fc.uniqueArray(ids).map((list) => new Set(list)),
  owned: fc.array(ownedThings),
  lost: fc.constant([]),
  found: fc.array(foundThings),
  looked: fc.uniqueArray(kinds).map((list) => new Set(list)),
});

test('never is anything removed that is foreign, owned, or of an object that there is', () => {
  fc.assert(
    fc.property(inventories, (inventory) => {
      for (const { remedy } of compare(inventory)) {
        if (remedy?.do !== 'remove') continue;
        const { found } = remedy;
        assert.equal(found.foreign, undefined);
        assert.ok(!inventory.owned.some(({ kind, key }) => kind === found.kind && key === found.key));
        assert.ok(!(found.ids ?? []).some((one) => inventory.known.has(one)));
      }
    }),
  );
});

test('all that is ours and has no owner is found, and all that is needed and not there', () => {
  fc.assert(
    fc.property(inventories, (inventory) => {
      const findings = compare(inventory).map(({ finding }) => `${finding.problem} ${finding.kind} ${finding.key}`);
      for (const { kind, key, ids: of = [], foreign } of inventory.found) {
        const hasOwner =
          of.some((one) => inventory.known.has(one)) ||
          inventory.owned.some((thing) => thing.kind === kind && thing.key === key);
        const problems = foreign === undefined ? ['orphan', 'blocked'] : ['foreign'];
        if (!hasOwner) assert.ok(problems.some((problem) => findings.includes(`${problem} ${kind} ${key}`)));
      }
      for (const { kind, key, needed } of inventory.owned) {
        const isThere = inventory.found.some((found) => found.kind === kind && found.key === key);
        if (needed !== undefined && inventory.looked.has(kind) && !isThere) {
          assert.ok(findings.includes(`missing ${kind} ${key}`));
        }
      }
    }),
  );
});
