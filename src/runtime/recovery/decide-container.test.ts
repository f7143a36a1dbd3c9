import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { newContainerStatus, transition, type ContainerEvent, type ContainerStatus } from '../container/state.ts';
import { FAKE_TASK as task } from '../task/fake-task.ts';
import { decideContainer, type ContainerFound } from './decide-container.ts';

const STEPS: readonly ContainerEvent[] = [
  { kind: 'created' },
  { kind: 'start-intended', intent: { phase: 'preparing', bootId: 'b', sinceWallMs: 10 } },
  { kind: 'task-made', task, user: { uid: 0, gid: 0, additionalGids: [] } },
  { kind: 'task-released' },
  { kind: 'started', startedAtWallMs: 20 },
];
const at = (steps: number): ContainerStatus => STEPS.slice(0, steps).reduce(transition, newContainerStatus(1));
const [CREATING, CREATED, PREPARING, MADE, RELEASED, RUNNING] = [0, 1, 2, 3, 4, 5].map(at) as [
  ContainerStatus,
  ContainerStatus,
  ContainerStatus,
  ContainerStatus,
  ContainerStatus,
  ContainerStatus,
];
const EXITED = transition(RUNNING, { kind: 'exited', exit: { kind: 'exited', code: 3, finishedAtWallMs: 30 } });
const LOST = transition(RUNNING, {
  kind: 'exited',
  exit: { kind: 'unknown', reason: 'its monitor does not react', finishedAtWallMs: 30 },
});
const UNKNOWN = transition(RUNNING, { kind: 'lost-sight', why: 'x', atWallMs: 30 });

const found = (more: Partial<ContainerFound> = {}): ContainerFound => ({
  sameBoot: true,
  process: 'alive',
  bootedAtWallMs: 7,
  ...more,
});
const exit = { code: 4, writtenAtWallMs: 40 };
const decide = (status: ContainerStatus, more: Partial<ContainerFound> = {}): string =>
  decideContainer(status, found(more)).kind;

test('the table', () => {
  assert.equal(decide(CREATING, { process: 'none' }), 'roll-back');
  assert.equal(decide(CREATED, { process: 'none' }), 'keep');
  assert.equal(decide(EXITED, { process: 'none' }), 'keep');
  for (const cut of [PREPARING, MADE]) {
    assert.equal(decide(cut), 'undo-start');
    assert.equal(
      decide(cut, { process: 'gone', exit }),
      'undo-start',
      'a number that a half-made process left is no exit',
    );
    assert.equal(decide(cut, { sameBoot: false, process: 'none' }), 'undo-start');
  }
  assert.equal(decide(RELEASED, { runtimeStatus: 'created' }), 'undo-start');
  assert.equal(decide(RELEASED, { runtimeStatus: 'running' }), 'adopt');
  assert.equal(decide(RELEASED, { runtimeStatus: 'paused' }), 'adopt');
  assert.equal(decide(RELEASED, { process: 'gone' }), 'adopt', 'the monitor tells how it ended');
  assert.equal(decide(RELEASED, { process: 'unverifiable' }), 'look-again');
  const undoing = transition(RELEASED, { kind: 'start-undoing' });
  assert.equal(decide(undoing, { process: 'gone', exit }), 'undo-start', 'killed while it was being undone');
  for (const status of [RUNNING, UNKNOWN]) {
    assert.equal(decide(status), 'watch');
    assert.equal(decide(status, { exit }), 'watch', 'a file beside a process that lives is no exit');
    assert.equal(decide(status, { process: 'gone' }), 'watch');
    assert.equal(decide(status, { process: 'gone', exit }), 'watch');
    assert.equal(decide(status, { process: 'unverifiable' }), 'lose-sight');
    assert.equal(decide(status, { sameBoot: false, process: 'none' }), 'exited');
  }
});

test('an exit that had to be told as unknown is corrected by the file that came while nobody looked, and no other is', () => {
  const late = { kind: 'exited', code: 4, finishedAtWallMs: 40 } as const;
  for (const sameBoot of [true, false]) {
    assert.equal(decide(LOST, { sameBoot, process: 'none' }), 'keep');
    assert.deepEqual(decideContainer(LOST, found({ sameBoot, process: 'none', exit })), {
      kind: 'correct',
      exit: late,
    });
    assert.equal(decide(EXITED, { sameBoot, process: 'none', exit }), 'keep');
  }
  const failed = transition(MADE, { kind: 'start-failed', message: 'no such file', atWallMs: 5 });
  assert.equal(decide(failed, { process: 'none', exit }), 'keep', 'what a start that failed left behind is no exit');
});

test('after a reboot an exit is what its file says, or unknown at the time of the boot', () => {
  const gone = { sameBoot: false, process: 'none' } as const;
  assert.deepEqual(decideContainer(RUNNING, found({ ...gone, exit })), {
    kind: 'exited',
    exit: { kind: 'exited', code: 4, finishedAtWallMs: 40 },
  });
  const decision = decideContainer(RUNNING, found(gone));
  assert.ok(decision.kind === 'exited' && decision.exit.kind === 'unknown');
  assert.equal(decision.exit.finishedAtWallMs, 7);
});

test('no decision is impossible for the state machine, none kills what may run, none makes up a code', () => {
  const statuses = fc.constantFrom(CREATING, CREATED, PREPARING, MADE, RELEASED, RUNNING, EXITED, LOST, UNKNOWN);
  const looks: fc.Arbitrary<ContainerFound> = fc.record(
    {
      sameBoot: fc.boolean(),
      process: fc.constantFrom('alive', 'gone', 'unverifiable', 'none'),
      bootedAtWallMs: fc.constant(7),
      exit: fc.constant(exit),
      runtimeStatus: fc.constantFrom('created', 'running', 'stopped', 'paused', 'odd'),
    },
    { requiredKeys: ['sameBoot', 'process', 'bootedAtWallMs'] },
  );
  fc.assert(
    fc.property(statuses, looks, (status, look) => {
      const decision = decideContainer(status, look);
      switch (decision.kind) {
        case 'adopt':
          transition(status, { kind: 'started', startedAtWallMs: decision.startedAtWallMs });
          break;
        case 'look-again':
          assert.equal(look.process, 'unverifiable');
          break;
        case 'undo-start':
          transition(transition(status, { kind: 'start-undoing' }), { kind: 'start-undone' });
          assert.ok(status.start !== undefined);
          break;
        case 'exited':
          assert.equal(transition(status, { kind: 'exited', exit: decision.exit }).state.kind, 'exited');
          assert.ok(!look.sameBoot);
          assert.ok(decision.exit.kind === 'unknown' || decision.exit.code === look.exit?.code);
          break;
        case 'lose-sight':
        case 'watch':
          assert.ok(status.state.kind === 'running' || status.state.kind === 'unknown');
          break;
        case 'roll-back':
          assert.equal(status.state.kind, 'creating');
          break;
        case 'correct':
          assert.ok(look.exit !== undefined && status.state.kind === 'exited');
          break;
        case 'keep':
          assert.ok(status.start === undefined);
      }
    }),
  );
});

/** The status after what a decision asks for has been carried out, and what a look finds then. */
function carryOut(status: ContainerStatus, look: ContainerFound): [ContainerStatus, ContainerFound] | 'gone' {
  const decision = decideContainer(status, look);
  switch (decision.kind) {
    case 'roll-back':
      return 'gone';
    case 'undo-start': {
      const undone = transition(transition(status, { kind: 'start-undoing' }), { kind: 'start-undone' });
      return [undone, { ...look, process: 'none', exit: undefined, runtimeStatus: undefined }];
    }
    case 'adopt':
      return [transition(status, { kind: 'started', startedAtWallMs: decision.startedAtWallMs }), look];
    case 'exited':
      return [transition(status, { kind: 'exited', exit: decision.exit }), look];
    case 'correct':
      return [transition(status, { kind: 'exit-corrected', exit: decision.exit }), look];
    case 'lose-sight':
      return [transition(status, { kind: 'lost-sight', why: decision.why, atWallMs: 1 }), look];
    case 'watch':
      return [transition(status, { kind: 'verified' }), look];
    case 'keep':
    case 'look-again':
      return [status, look];
  }
}

test('a second recovery of the same world decides nothing new, however often the first was cut off', () => {
  const statuses = fc.constantFrom(CREATING, CREATED, PREPARING, MADE, RELEASED, RUNNING, EXITED, LOST, UNKNOWN);
  const looks: fc.Arbitrary<ContainerFound> = fc
    .record({
      sameBoot: fc.boolean(),
      process: fc.constantFrom('alive' as const, 'gone' as const, 'unverifiable' as const, 'none' as const),
      exit: fc.constantFrom(exit, undefined),
      runtimeStatus: fc.constantFrom('created', 'running', 'stopped', 'paused', undefined),
    })
    // Nothing of another boot is alive.
    .map((look) => ({ ...look, bootedAtWallMs: 7, process: look.sameBoot ? look.process : ('none' as const) }));
  fc.assert(
    fc.property(statuses, looks, (status, look) => {
      const first = carryOut(status, look);
      if (first === 'gone') return;
      const second = carryOut(...first);
      assert.ok(second !== 'gone');
      assert.deepEqual(second[0].state.kind, first[0].state.kind);
      assert.equal(second[0].start, first[0].start);
      const kind = decide(first[0], first[1]);
      assert.ok(['keep', 'watch', 'look-again', 'lose-sight'].includes(kind), kind);
      // Cut off in the middle of undoing: what the undoing left is not taken for an end of the command.
      if (decide(status, look) === 'undo-start') {
        const halfway = transition(status, { kind: 'start-undoing' });
        for (const process of ['alive', 'gone', 'unverifiable', 'none'] as const) {
          assert.equal(decide(halfway, { ...look, process, exit }), 'undo-start');
        }
      }
    }),
  );
});
