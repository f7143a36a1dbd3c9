import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ContainerConfig } from '../../cri/gen/api.ts';
import type { JournalEntry, JournalInput, JournalSubject } from '../../journal/journal.ts';
import { newContainerStatus, type ContainerStatus } from '../container/state.ts';
import type { ContainerRecord } from './container-record.ts';
import { tellDamaged, type Opened } from './tell-damaged.ts';

const ID = (letter: string): string => letter.repeat(64);
const POD = { podUid: 'u', podName: 'web', podNamespace: 'default' };
const NOTHING: Opened = {
  sandboxes: { damaged: [] },
  containers: { damaged: [], list: () => [] },
  ledger: { damaged: [] },
};

/** What is told, where the journal has entries about these subjects. */
async function told(
  opened: Partial<Opened>,
  known: readonly JournalSubject[] | 'cannot be read',
): Promise<JournalInput[]> {
  const inputs: JournalInput[] = [];
  await tellDamaged(
    {
      record: (input) => void inputs.push(input),
      query: (wanted) => {
        if (known === 'cannot be read') return Promise.reject(new Error('no disk'));
        const isMeant = (one: JournalSubject): boolean =>
          Object.entries(wanted).every(([key, value]) => one[key as keyof JournalSubject] === value);
        const entry = { seq: 1, wallMs: 0, bootId: '', what: 'container.created', message: '' };
        return Promise.resolve(known.filter(isMeant).map((subject): JournalEntry => ({ ...entry, subject })));
      },
    },
    { ...NOTHING, ...opened },
  );
  return inputs;
}

function containerIn(sandboxId: string, id: string, state: ContainerStatus['state']): ContainerRecord {
  const image = { id: 'sha256:1', shown: 'app', ref: 'app', diffIds: [] };
  const facts = { name: id, sandboxId, image, stopSignal: 15, cgroupPath: '/x' };
  return {
    meta: { id, config: ContainerConfig.fromPartial({}), facts },
    status: { ...newContainerStatus(0), state },
  };
}

test('a torn record is told of its object and of the pod that the journal remembers', async () => {
  const whole = { ...POD, sandboxId: ID('a'), containerId: ID('c'), containerName: 'main' };
  const containers = { damaged: [{ id: ID('c'), reason: 'torn' }], list: () => [] };
  const [entry, ...more] = await told({ containers }, [{ containerId: ID('c') }, whole, { sandboxId: ID('a') }]);
  assert.deepEqual(entry?.subject, whole);
  assert.equal(entry.what, 'container.record-damaged');
  assert.deepEqual(more, []);
  // A journal that cannot be read takes nothing else along.
  const [alone] = await told({ containers }, 'cannot be read');
  assert.deepEqual(alone?.subject, { containerId: ID('c') });
});

test('a container whose sandbox is lost is told why it ends; one that has ended is not', async () => {
  const ended = { kind: 'ended', exit: { kind: 'exited', code: 0, finishedAtWallMs: 0 } } as const;
  const list = (): ContainerRecord[] => [
    containerIn(ID('a'), ID('c'), {
      kind: 'unknown',
      why: '',
      sinceWallMs: 0,
      was: { kind: 'running', bootId: '', startedAtWallMs: 0, task: {} as never },
    }),
    containerIn(ID('a'), ID('d'), { kind: 'exited', cause: ended, finishedAtWallMs: 0 }),
    containerIn(ID('b'), ID('e'), {
      kind: 'running',
      bootId: '',
      startedAtWallMs: 0,
      task: {} as never,
    }),
  ];
  const sandboxes = { damaged: [{ id: ID('a'), reason: 'torn' }] };
  const inputs = await told({ sandboxes, containers: { damaged: [], list } }, []);
  assert.deepEqual(
    inputs.map(({ what, subject }) => [what, subject]),
    [
      ['sandbox.record-damaged', { sandboxId: ID('a') }],
      ['container.sandbox-lost', { sandboxId: ID('a'), containerId: ID('c') }],
    ],
  );
});

test('a damaged entry of the ledger is told of whom it was', async () => {
  const entry = { kind: 'task', key: 'k', reason: 'torn', setAside: true };
  const owners = [`container/${ID('c')}`, `sandbox/${ID('a')}`, `network/${ID('a')}`, 'network/gantry-x'];
  const inputs = await told({ ledger: { damaged: owners.map((owner) => ({ ...entry, owner })) } }, [
    { ...POD, sandboxId: ID('a'), containerId: ID('d'), containerName: 'other' },
  ]);
  assert.deepEqual(
    inputs.map(({ subject }) => subject),
    [{ containerId: ID('c') }, { ...POD, sandboxId: ID('a') }, { ...POD, sandboxId: ID('a') }, {}],
  );
  assert.match(inputs[0]?.message ?? '', /entry of its task k cannot be read and is set aside: torn/);
});
