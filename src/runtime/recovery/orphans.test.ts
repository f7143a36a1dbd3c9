import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RuntimeContext } from '../context.ts';
import { ID, oneContainer } from '../fake-one-container.ts';
import { laneOfOrphan, type Orphan } from './orphan.ts';
import { findOrphanCgroups, releaseOrphans } from './orphans.ts';

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

/** A runtime whose one sandbox has the group `cgroupPath`, on a machine with these groups in groups. */
async function withGroups(
  groups: Readonly<Record<string, readonly string[]>>,
  cgroupPath: string,
): Promise<{ readonly parts: RuntimeContext; readonly removed: string[] }> {
  const { rt } = await oneContainer();
  const removed: string[] = [];
  const parts = {
    ...rt,
    settings: { ...rt.settings, cgroupParent: '/gantry', netnsDir: '/run/netns', instance: 'x' },
    sandboxes: {
      get: (id: string) => rt.sandboxes.get(id),
      list: () =>
        rt.sandboxes
          .list()
          .map((record) => ({ ...record, meta: { ...record.meta, facts: { ...record.meta.facts, cgroupPath } } })),
    },
    cgroups: {
      ...rt.cgroups,
      children: (path: string) => Promise.resolve([...(groups[path] ?? [])]),
      killAll: () => Promise.resolve(),
      remove: (_op: unknown, path: string) => Promise.resolve(void removed.push(path)),
    },
  } as unknown as RuntimeContext;
  return { parts, removed };
}

test('a pod group that no sandbox has is left over, whatever it is called by; a container group that no container has, too', async () => {
  const groups = {
    '/gantry': ['daemon', 'monitors', 'pod11-22', 'pod33-44', `pod${A}`],
    '/gantry/pod11-22': [ID, B],
  };
  const { parts } = await withGroups(groups, '/gantry/pod11-22');
  assert.deepEqual(await findOrphanCgroups(parts), [
    { kind: 'cgroup', path: `/gantry/pod11-22/${B}` },
    { kind: 'cgroup', path: '/gantry/pod33-44' },
    { kind: 'cgroup', path: `/gantry/pod${A}` },
  ]);
});

test('what gets its record, or loses it, while the groups are listed is nobody’s leftover', async () => {
  const groups = { '/gantry': ['pod11-22', `pod${A}`], '/gantry/pod11-22': [ID, B] };
  const { parts } = await withGroups(groups, '/gantry/pod11-22');
  const { sandboxes, containers } = parts;
  const made = new Set<string>();
  const changing = {
    ...parts,
    sandboxes: { get: () => undefined, list: () => (made.size === 0 ? sandboxes.list() : []) },
    containers: { list: () => containers.list(), get: (id: string) => (made.has(id) ? { id } : undefined) },
    cgroups: {
      ...parts.cgroups,
      children: (path: string) => {
        made.add(B);
        return parts.cgroups.children(path);
      },
    },
  } as unknown as RuntimeContext;
  assert.deepEqual(await findOrphanCgroups(changing), [{ kind: 'cgroup', path: `/gantry/pod${A}` }]);
});

test('a pod group that was left over is not taken from the sandbox that its pod was given since', async () => {
  const { parts, removed } = await withGroups({}, '/gantry/pod11-22');
  await releaseOrphans(parts, [
    { kind: 'cgroup', path: '/gantry/pod11-22' },
    { kind: 'cgroup', path: '/gantry/pod33-44' },
  ]);
  assert.deepEqual(removed, ['/gantry/pod33-44']);
});
