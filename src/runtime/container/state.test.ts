import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { isKind } from '../../lib/errors.ts';
import type { ExitStatus } from '../task/exit-status.ts';
import { FAKE_TASK as task } from '../task/fake-task.ts';
import { canStart, mayHaveProcess, newContainerStatus, taskOf, transition } from './state.ts';
import type { ContainerEvent, ContainerStatus } from './state.ts';

const user = { uid: 0, gid: 0, additionalGids: [] };
const stop = { deadlineBoottimeMs: 1, bootId: 'b', signal: 15, reason: 'r', requestedAtWallMs: 1, kills: 0 };
const ended = (code: number, finishedAtWallMs = 50): ExitStatus => ({ kind: 'exited', code, finishedAtWallMs });
const unknown: ExitStatus = { kind: 'unknown', reason: 'nobody can tell', finishedAtWallMs: 50 };

const events: fc.Arbitrary<ContainerEvent> = fc.oneof(
  fc.constantFrom<ContainerEvent>(
    { kind: 'created' },
    { kind: 'start-intended', intent: { phase: 'preparing', bootId: 'b', sinceWallMs: 10 } },
    { kind: 'task-made', task, user },
    { kind: 'task-released' },
    { kind: 'started', startedAtWallMs: 20 },
    { kind: 'start-undone' },
    { kind: 'start-failed', message: 'no such file', atWallMs: 30 },
    { kind: 'exited', exit: unknown },
    { kind: 'lost-sight', why: 'asked in vain', atWallMs: 40 },
    { kind: 'verified' },
    { kind: 'stop-changed', stop },
    { kind: 'removal-wanted', atWallMs: 60 },
  ),
  fc.nat(255).map((code): ContainerEvent => ({ kind: 'exited', exit: ended(code, code) })),
  fc.nat(255).map((code): ContainerEvent => ({ kind: 'exit-corrected', exit: ended(code, code) })),
);

const EDGES: Readonly<Record<string, readonly string[]>> = {
  creating: ['creating', 'created'],
  created: ['created', 'running', 'exited'],
  running: ['running', 'unknown', 'exited'],
  unknown: ['unknown', 'running', 'exited'],
  exited: ['exited'],
};

function apply(status: ContainerStatus, event: ContainerEvent): ContainerStatus {
  try {
    return transition(status, event);
  } catch (error) {
    assert.ok(isKind(error, 'FailedPrecondition'));
    return status;
  }
}

function after(...list: readonly ContainerEvent[]): ContainerStatus {
  return list.reduce(transition, newContainerStatus(1));
}

const RUNNING: readonly ContainerEvent[] = [
  { kind: 'created' },
  { kind: 'start-intended', intent: { phase: 'preparing', bootId: 'b', sinceWallMs: 10 } },
  { kind: 'task-made', task, user },
  { kind: 'task-released' },
  { kind: 'started', startedAtWallMs: 20 },
];

test('whatever happens, a state is left only by the edges of the diagram', () => {
  fc.assert(
    fc.property(fc.array(events, { maxLength: 30 }), (list) => {
      let status = newContainerStatus(1);
      for (const event of list) {
        const next = apply(status, event);
        assert.ok(EDGES[status.state.kind]?.includes(next.state.kind), `${status.state.kind} -> ${next.state.kind}`);
        if (next.state.kind === 'exited') {
          assert.equal(taskOf(next), undefined);
          assert.ok(!mayHaveProcess(next));
          assert.ok(next.state.finishedAtWallMs >= (next.state.startedAtWallMs ?? 0));
        }
        if (next.state.kind === 'running' || next.state.kind === 'unknown') assert.equal(taskOf(next)?.pid, 100);
        status = next;
      }
    }),
  );
});

test('an exit is told once: what is known is never replaced, what is unknown is corrected', () => {
  fc.assert(
    fc.property(fc.array(events, { maxLength: 30 }), fc.nat(255), (list, code) => {
      const first = transition(after(...RUNNING), { kind: 'exited', exit: ended(code) });
      const last = list.filter(({ kind }) => kind !== 'exit-corrected').reduce(apply, first);
      assert.deepEqual(last.state, first.state);
    }),
  );
  const lost = transition(after(...RUNNING), { kind: 'exited', exit: unknown });
  const corrected = transition(lost, { kind: 'exit-corrected', exit: ended(3) });
  assert.deepEqual(corrected.state, {
    kind: 'exited',
    cause: { kind: 'ended', exit: ended(3) },
    startedAtWallMs: 20,
    finishedAtWallMs: 50,
  });
});

test('UNKNOWN keeps everything that RUNNING knew and heals to it', () => {
  const running = after(...RUNNING);
  const lost = transition(running, { kind: 'lost-sight', why: 'slow', atWallMs: 30 });
  assert.equal(taskOf(lost)?.pid, 100);
  assert.deepEqual(transition(lost, { kind: 'verified' }), running);
});

test('an end before the command was let go is a start that failed; afterwards it is the command’s own', () => {
  const made = after(...RUNNING.slice(0, 3));
  const early = transition(made, { kind: 'exited', exit: ended(137) });
  assert.ok(early.state.kind === 'exited' && early.state.cause.kind === 'start-failed');
  const released = after(...RUNNING.slice(0, 4));
  const quick = transition(released, { kind: 'exited', exit: ended(3) });
  assert.ok(quick.state.kind === 'exited' && quick.state.cause.kind === 'ended');
  assert.equal(transition(quick, { kind: 'started', startedAtWallMs: 99 }), quick);
});

test('a clock that was set back does not put the end before the start', () => {
  const status = transition(after(...RUNNING), { kind: 'exited', exit: ended(0, 5) });
  assert.ok(status.state.kind === 'exited');
  assert.equal(status.state.finishedAtWallMs, 20);
});

test('only a clean CREATED can be started', () => {
  const created = after({ kind: 'created' });
  assert.ok(canStart(created));
  assert.ok(!canStart(transition(created, { kind: 'removal-wanted', atWallMs: 2 })));
  assert.ok(!canStart(after(...RUNNING.slice(0, 2))));
  assert.ok(canStart(transition(after(...RUNNING.slice(0, 3)), { kind: 'start-undone' })));
});
