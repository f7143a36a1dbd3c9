import assert from 'node:assert/strict';
import { test } from 'node:test';
import { oneContainer } from '../fake-one-container.ts';
import { laneOfOrphan, type Orphan } from './orphan.ts';
import { releaseOrphans } from './orphans.ts';

const A = 'a'.repeat(64);
const B = 'b'.repeat(64);

const LANES: readonly (readonly [orphan: Orphan, lane: string])[] = [
  [{ kind: 'ledger', owner: `container/${A}` }, A],
  [{ kind: 'ledger', owner: `network/${A}` }, `network/${A}`],
  [{ kind: 'cgroup', path: `/gantry/pod${A}` }, A],
  [{ kind: 'cgroup', path: `/gantry/pod${A}/${B}` }, B],
  [{ kind: 'netns', path: '/run/netns/gantry-x-1' }, '/run/netns/gantry-x-1'],
  [{ kind: 'snapshot', id: B }, B],
];

for (const [orphan, lane] of LANES) {
  test(`what is left of one object goes in one lane: ${JSON.stringify(orphan)}`, () => {
    assert.equal(laneOfOrphan(orphan), lane);
  });
}

test('one that hangs keeps back what is behind it, and nobody else for longer than its budget', async () => {
  const { rt, clock } = await oneContainer();
  const hung = Promise.withResolvers<undefined>();
  const released: string[] = [];
  const parts = {
    ...rt,
    cgroups: {
      ...rt.cgroups,
      children: () => Promise.resolve([]),
      killAll: async (_op: unknown, path: string) => {
        if (path.endsWith(A)) await hung.promise;
        released.push(`cgroup of ${path.slice(-1)}`);
      },
      remove: () => Promise.resolve(),
    },
    tasks: {
      ...rt.tasks,
      forgetExit: (id: string) => Promise.resolve(void released.push(`exit file of ${id.slice(-1)}`)),
    },
  } as unknown as typeof rt;
  const of = (id: string): Orphan[] => [
    { kind: 'exit-file', id },
    { kind: 'cgroup', path: `/gantry/pod${id}` },
  ];
  const done = releaseOrphans(parts, [...of(A), ...of(B)]);
  await clock.advance(1_000);
  assert.deepEqual(released, ['cgroup of b', 'exit file of b']);
  await clock.advance(9_500);
  await done;
  assert.deepEqual(rt.retries.viewOf(A)?.events, ['leftover (cgroup)', 'leftover (exit-file)'], 'in their order, both');
  assert.equal(rt.retries.viewOf(B), undefined);
  hung.resolve(undefined);
});
