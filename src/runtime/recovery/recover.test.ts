import assert from 'node:assert/strict';
import { test } from 'node:test';
import { recordExit } from '../events/record-exit.ts';
import { handleCleanup } from '../events/handle-cleanup.ts';
import { ID, oneContainer, SANDBOX, type OneContainer } from '../fake-one-container.ts';
import { transition } from '../sandbox/state.ts';
import { recover } from './recover.ts';

/** A container that ran when the process before this one ended; the first look at it has been made. */
async function afterFirstLook(arrange: (one: OneContainer) => void): Promise<OneContainer> {
  const one = await oneContainer();
  const { rt, clock, world } = one;
  rt.sandboxes.publishFirst(SANDBOX, (status) => transition(status, { kind: 'not-ready', why: 'x', atWallMs: 1 }));
  rt.sandboxes.publishFirst(SANDBOX, (status) => transition(status, { kind: 'stopped', atWallMs: 1 }));
  world.cleanUp = (event, op) => handleCleanup(op, rt, ID, event);
  arrange(one);
  const recovered = recover(rt, []);
  await clock.advance(10_000);
  await recovered;
  return one;
}

const stateOf = ({ rt }: OneContainer): string => rt.containers.must(ID).status.state.kind;
const isArmed = ({ done }: OneContainer): boolean => done.some(([what]) => what === 'arm');
const unanswered = (): Promise<boolean> => Promise.reject(new Error('too many open files'));

test('one that lives is watched from the first look on', async () => {
  const one = await afterFirstLook(() => undefined);
  assert.equal(stateOf(one), 'running');
  assert.ok(isArmed(one));
  assert.equal(one.rt.retries.viewOf(ID), undefined);
});

test('slow to look at: the last known state for a while, then UNKNOWN, and RUNNING again when the answer comes', async () => {
  const answer = Promise.withResolvers<undefined>();
  const one = await afterFirstLook(({ world }) => {
    world.readExit = () => answer.promise;
  });
  assert.equal(stateOf(one), 'running', 'kubelet would kill what it sees as UNKNOWN');
  await one.clock.advance(12_000);
  const { state } = one.rt.containers.must(ID).status;
  assert.ok(state.kind === 'unknown');
  assert.match(state.why, /10000 ms/);
  assert.equal(state.was.task.pid, 100);
  assert.ok(one.rt.retries.has(ID), 'it is looked at again');
  assert.ok(!one.done.some(([what]) => /signal|kill/.test(what)), 'nothing is killed for being slow');
  answer.resolve(undefined);
  await one.clock.advance(400_000);
  assert.equal(stateOf(one), 'running');
  assert.ok(isArmed(one));
  assert.equal(one.rt.retries.viewOf(ID), undefined);
});

test('a question that fails once is asked again before anybody is told of it', async () => {
  let asked = 0;
  const one = await afterFirstLook(({ world }) => {
    world.alive = () => (asked++ === 0 ? unanswered() : Promise.resolve(true));
  });
  const seen = new Set<string>();
  for (let round = 0; round < 50; round++) {
    seen.add(stateOf(one));
    await one.clock.advance(100);
  }
  assert.deepEqual([...seen], ['running']);
  assert.ok(isArmed(one));
});

test('a question that goes on failing makes it UNKNOWN with the reason; the answer heals it, an exit ends it', async () => {
  for (const end of [false, true]) {
    const one = await afterFirstLook(({ world }) => {
      world.alive = unanswered;
    });
    await one.clock.advance(5_000);
    const { state } = one.rt.containers.must(ID).status;
    assert.ok(state.kind === 'unknown');
    assert.match(state.why, /process table/);
    if (end) recordExit(one.rt, ID, { kind: 'exited', code: 4, finishedAtWallMs: 50 });
    one.world.alive = () => Promise.resolve(true);
    await one.clock.advance(400_000);
    assert.equal(stateOf(one), end ? 'exited' : 'running');
  }
});
