import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { newContainerStatus, transition, type ContainerEvent, type ContainerStatus } from '../container/state.ts';
import { newSandboxStatus, transition as sandboxTransition, type SandboxEvent } from '../sandbox/state.ts';
import type { ExitStatus } from '../task/exit-status.ts';
import { FAKE_TASK as task } from '../task/fake-task.ts';
import { lifeEvents, lifeOfContainer, lifeOfSandbox, type Life, type LifeEvent } from './life-events.ts';

const SEED = 20_261_121;
const user = { uid: 0, gid: 0, additionalGids: [] };
const exit: ExitStatus = { kind: 'exited', code: 7, finishedAtWallMs: 50 };
const unknownExit: ExitStatus = { kind: 'unknown', reason: 'nobody can tell', finishedAtWallMs: 50 };

const CREATED: ContainerEvent = { kind: 'created' };
const INTENDED: ContainerEvent = {
  kind: 'start-intended',
  intent: { phase: 'preparing', bootId: 'b', sinceWallMs: 10 },
};
const MADE: ContainerEvent = { kind: 'task-made', task, user };
const RELEASED: ContainerEvent = { kind: 'task-released' };
const STARTED: ContainerEvent = { kind: 'started', startedAtWallMs: 20 };
const EXITED: ContainerEvent = { kind: 'exited', exit };
const LOST_SIGHT: ContainerEvent = { kind: 'lost-sight', why: 'asked in vain', atWallMs: 40 };
const START_FAILED: ContainerEvent = { kind: 'start-failed', message: 'no such file', atWallMs: 30 };

const containerEvents: fc.Arbitrary<ContainerEvent> = fc.constantFrom<ContainerEvent>(
  CREATED,
  INTENDED,
  MADE,
  RELEASED,
  STARTED,
  { kind: 'start-undoing' },
  { kind: 'start-undone' },
  START_FAILED,
  EXITED,
  { kind: 'exited', exit: unknownExit },
  { kind: 'exit-corrected', exit },
  LOST_SIGHT,
  { kind: 'verified' },
  { kind: 'removal-wanted', atWallMs: 60 },
);

const sandboxEvents: fc.Arbitrary<SandboxEvent> = fc.constantFrom<SandboxEvent>(
  { kind: 'connected', ips: ['10.0.0.2'] },
  { kind: 'ready' },
  { kind: 'not-ready', why: 'x', atWallMs: 5 },
  { kind: 'stop-wanted', atWallMs: 5 },
  { kind: 'stopped', atWallMs: 5 },
  { kind: 'removal-wanted', atWallMs: 5 },
);

/** What somebody who sees each status hears, the removal included. */
function heard<Status, Event>(
  first: Status,
  events: readonly Event[],
  change: (status: Status, event: Event) => Status,
  lifeOf: (status: Status | undefined) => Life | undefined,
): { readonly told: LifeEvent[]; readonly lives: (Life | undefined)[] } {
  const lives = [undefined, lifeOf(first)];
  let status = first;
  for (const event of events) {
    try {
      status = change(status, event);
    } catch {
      continue;
    }
    lives.push(lifeOf(status));
  }
  lives.push(undefined);
  return { told: lives.flatMap((life, index) => (index === 0 ? [] : lifeEvents(lives[index - 1], life))), lives };
}

const ORDER: readonly LifeEvent[] = ['created', 'started', 'stopped', 'deleted'];

function checkLife(told: readonly LifeEvent[], lives: readonly (Life | undefined)[]): void {
  assert.deepEqual(told, [...new Set(told)], 'told twice');
  assert.deepEqual(
    told,
    ORDER.filter((type) => told.includes(type)),
    'out of order',
  );
  const seen = lives.some((life) => life !== undefined);
  assert.equal(told.includes('created'), seen);
  assert.equal(told.includes('deleted'), seen);
  if (told.includes('started')) assert.ok(told.includes('stopped'), 'started and never stopped');
  if (lives.some((life) => life?.stopped)) assert.ok(told.includes('stopped'), 'an end that is not told');
}

test('whatever happens to a container, each step of its life is told once and in order', () => {
  fc.assert(
    fc.property(fc.array(containerEvents, { maxLength: 40 }), (events) => {
      const { told, lives } = heard(newContainerStatus(1), events, transition, lifeOfContainer);
      checkLife(told, lives);
    }),
    { seed: SEED, numRuns: 2_000 },
  );
});

test('whatever happens to a sandbox, each step of its life is told once and in order', () => {
  fc.assert(
    fc.property(fc.array(sandboxEvents, { maxLength: 20 }), (events) => {
      const { told, lives } = heard(newSandboxStatus(1, 'b'), events, sandboxTransition, lifeOfSandbox);
      checkLife(told, lives);
    }),
    { seed: SEED, numRuns: 1_000 },
  );
});

test('whoever looks less often hears the same', () => {
  fc.assert(
    fc.property(fc.array(containerEvents, { maxLength: 40 }), fc.infiniteStream(fc.boolean()), (events, looks) => {
      const { lives } = heard(newContainerStatus(1), events, transition, lifeOfContainer);
      const visible = lives.slice(0, -1);
      const often = visible.flatMap((life, index) => (index === 0 ? [] : lifeEvents(visible[index - 1], life)));
      const seen = visible.filter((_life, index) => index === 0 || index === visible.length - 1 || looks.next().value);
      const seldom = seen.flatMap((life, index) => (index === 0 ? [] : lifeEvents(seen[index - 1], life)));
      assert.deepEqual(seldom, often);
    }),
    { seed: SEED, numRuns: 1_000 },
  );
});

const LIVES: readonly {
  readonly what: string;
  readonly events: readonly ContainerEvent[];
  readonly told: LifeEvent[];
}[] = [
  { what: 'a create that is rolled back', events: [], told: [] },
  { what: 'one that never ran', events: [CREATED], told: ['created', 'deleted'] },
  { what: 'a whole life', events: [CREATED, INTENDED, MADE, RELEASED, STARTED, EXITED], told: [...ORDER] },
  { what: 'over before start returned', events: [CREATED, INTENDED, MADE, RELEASED, EXITED], told: [...ORDER] },
  { what: 'a start that failed', events: [CREATED, INTENDED, START_FAILED], told: ['created', 'stopped', 'deleted'] },
  {
    what: 'lost from sight and found again',
    events: [CREATED, INTENDED, MADE, RELEASED, STARTED, LOST_SIGHT, { kind: 'verified' }, EXITED],
    told: [...ORDER],
  },
  {
    what: 'an exit that is corrected',
    events: [
      CREATED,
      INTENDED,
      MADE,
      RELEASED,
      STARTED,
      { kind: 'exited', exit: unknownExit },
      { kind: 'exit-corrected', exit },
    ],
    told: [...ORDER],
  },
  {
    what: 'a start that is undone and made again',
    events: [CREATED, INTENDED, { kind: 'start-undone' }, INTENDED, MADE, RELEASED, STARTED, EXITED],
    told: [...ORDER],
  },
];

for (const { what, events, told } of LIVES) {
  test(`${what}: ${told.join(', ') || 'nothing'}`, () => {
    const { told: actual } = heard<ContainerStatus, ContainerEvent>(
      newContainerStatus(1),
      events,
      transition,
      lifeOfContainer,
    );
    assert.deepEqual(actual, told);
  });
}

test('a sandbox that could not be made and not be undone is seen as stopped', () => {
  const failed: SandboxEvent = { kind: 'not-ready', why: 'x', atWallMs: 5 };
  const { told } = heard(newSandboxStatus(1, 'b'), [failed], sandboxTransition, lifeOfSandbox);
  assert.deepEqual(told, ['created', 'stopped', 'deleted']);
});
