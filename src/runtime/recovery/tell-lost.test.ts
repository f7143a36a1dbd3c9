import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JournalInput } from '../../journal/journal.ts';
import { silentLog, type Log } from '../../lib/log.ts';
import type { Orphan } from './orphan.ts';
import { lostObjects, tellLost } from './tell-lost.ts';

const id = (letter: string): string => letter.repeat(64);

test('each object that something is left of counts once, by whatever is left', () => {
  const orphans: Orphan[] = [
    { kind: 'ledger', owner: `sandbox/${id('a')}` },
    { kind: 'sandbox-folder', id: id('a') },
    { kind: 'sandbox-folder', id: id('b') },
    { kind: 'cgroup', path: `/gantry/pod${id('c')}` },
    { kind: 'cgroup', path: '/gantry/pod-of-kubelet' },
    { kind: 'ledger', owner: `network/${id('d')}` },
    { kind: 'ledger', owner: `container/${id('e')}` },
    { kind: 'container-folder', id: id('e') },
    { kind: 'snapshot', id: id('f') },
    { kind: 'exit-file', id: id('0') },
    { kind: 'netns', path: '/run/netns/gantry-x-aaaaaaaaaaaaaaaa' },
  ];
  const { sandboxes, containers } = lostObjects(orphans);
  assert.deepEqual([...sandboxes].sort(), ['a', 'b', 'c', 'd'].map(id));
  assert.deepEqual([...containers].sort(), ['e', 'f'].map(id));
});

test('it is said with what the journal knows; of an empty machine nothing is', async () => {
  const errors: string[] = [];
  const told: JournalInput[] = [];
  const log: Log = { ...silentLog, error: (_fields, message) => void errors.push(message) };
  const subject = { podUid: 'uid', podName: 'web', sandboxId: id('a') };
  const journal = {
    record: (input: JournalInput): void => void told.push(input),
    query: ({ sandboxId }: { sandboxId?: string }) =>
      sandboxId === undefined
        ? Promise.reject(new Error('no disk'))
        : Promise.resolve([{ subject, what: 'x', message: 'x', seq: 1, wallMs: 1, bootId: 'b' }]),
  };
  const deps = { log, journal, path: '/r/runtime.db' };
  await tellLost(deps, lostObjects([]), 0);
  assert.deepEqual([errors, told], [[], []]);
  const orphans: Orphan[] = [
    { kind: 'sandbox-folder', id: id('a') },
    { kind: 'snapshot', id: id('b') },
    { kind: 'snapshot', id: id('c') },
  ];
  await tellLost(deps, lostObjects(orphans), 1);
  assert.equal(errors.length, 1);
  assert.match(
    errors[0] ?? '',
    /^\/r\/runtime\.db is not there any more: .* 1 sandbox, 2 containers and 1 image layer /,
  );
  assert.deepEqual(
    told.map((input) => input.subject),
    [{}, subject, { containerId: id('b') }, { containerId: id('c') }],
  );
});
