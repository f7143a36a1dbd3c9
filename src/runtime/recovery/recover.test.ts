import assert from 'node:assert/strict';
import { test } from 'node:test';
import { transition as containerTransition, type ContainerStatus } from '../container/state.ts';
import { FakeClock } from '../../lib/fake-clock.ts';
import { recordExit } from '../events/record-exit.ts';
import { handleCleanup } from '../events/handle-cleanup.ts';
import { BOOT, ID, oneContainer, SANDBOX, type OneContainer } from '../fake-one-container.ts';
import { transition } from '../sandbox/state.ts';
import { recover } from './recover.ts';

/** A container that ran when the process before this one ended; the first look at it has been made. */
async function afterFirstLook(
  arrange: (one: OneContainer) => void,
  so?: number | ContainerStatus,
): Promise<OneContainer> {
  const one = await oneContainer(so);
  const { rt, clock, world } = one;
  rt.sandboxes.publishFirst(SANDBOX, (status) => transition(status, { kind: 'not-ready', why: 'x', atWallMs: 1 }));
  rt.sandboxes.publishFirst(SANDBOX, (status) => transition(status, { kind: 'stopped', atWallMs: 1 }));
  world.cleanUp = (event, op) => handleCleanup(op, rt, ID, event);
  arrange(one);
  const first = { over: false };
  const recovered = recover(rt, []).then(() => (first.over = true));
  for (let tenths = 0; !first.over && tenths < 100; tenths++) await clock.advance(100);
  await recovered;
  return one;
}

async function startAgain({ rt }: OneContainer): Promise<void> {
  const intent = { phase: 'preparing', bootId: BOOT, sinceWallMs: 1 } as const;
  await rt.containers.update(ID, (status) => containerTransition(status, { kind: 'start-intended', intent }));
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

const CREATED = { kind: 'created' } as const;

test('a start that was cut short before the command ran: undone, and EXITED unless somebody starts it within 10 s', async () => {
  for (const [steps, ociState] of [
    [2, 'running'],
    [3, 'running'],
    [4, 'created'],
  ] as const) {
    const one = await afterFirstLook(({ world }) => {
      world.ociState = () => Promise.resolve({ status: ociState });
    }, steps);
    const { status } = one.rt.containers.must(ID);
    assert.deepEqual([status.state, status.start], [CREATED, undefined], String(steps));
    assert.ok(one.done.some(([what]) => what === 'release') && one.done.some(([what]) => what === 'forget exit'));
    await one.clock.advance(9_000);
    assert.equal(stateOf(one), 'created');
    await one.clock.advance(2_000);
    const { state } = one.rt.containers.must(ID).status;
    assert.ok(state.kind === 'exited' && state.cause.kind === 'start-failed');
    assert.match(state.cause.message, /cut short by a restart/);
  }
});

test('the same when the next daemon, too, is killed before it has given the start up: the one after it does', async () => {
  for (const startedAgain of [false, true]) {
    const second = await afterFirstLook(() => undefined, 3);
    const { status } = second.rt.containers.must(ID);
    const third = await afterFirstLook(() => undefined, JSON.parse(JSON.stringify(status)) as ContainerStatus);
    assert.deepEqual([stateOf(third), third.rt.containers.must(ID).status.start], ['created', undefined]);
    if (startedAgain) await startAgain(third);
    await third.clock.advance(9_000);
    assert.equal(stateOf(third), 'created');
    await third.clock.advance(2_000);
    assert.equal(stateOf(third), startedAgain ? 'created' : 'exited');
    if (!startedAgain) continue;
    const fresh = third.rt.containers.must(ID).status;
    assert.equal(fresh.startUndone, undefined, 'what is cut short next is another start');
  }
});

test('a CREATED container that nobody has started yet waits for as long as it takes', async () => {
  const one = await afterFirstLook(() => undefined, 1);
  await one.clock.advance(3_600_000);
  assert.equal(stateOf(one), 'created');
});

test('one that is started again in time is not ended for that', async () => {
  const one = await afterFirstLook(() => undefined, 3);
  await startAgain(one);
  await one.clock.advance(20_000);
  assert.equal(stateOf(one), 'created');
});

test('a start whose command runs is finished, with the time from the process table', async () => {
  const one = await afterFirstLook(() => undefined, 4);
  const { state } = one.rt.containers.must(ID).status;
  assert.ok(state.kind === 'running');
  assert.equal(state.startedAtWallMs, new FakeClock().wallMs() + 50, 'five ticks after the boot');
  assert.ok(isArmed(one));
  assert.ok(one.rt.containers.must(ID).status.startUntold, 'whoever repeats the call gets its answer');
});

test('whether a command ran is asked until it is known: neither undone nor taken for started', async () => {
  const one = await afterFirstLook(({ world }) => {
    world.ociState = () => Promise.reject(new Error('the OCI runtime hangs'));
  }, 4);
  await one.clock.advance(30_000);
  const { state, start } = one.rt.containers.must(ID).status;
  assert.deepEqual([state, start?.phase], [CREATED, 'released']);
  assert.ok(!one.done.some(([what]) => what === 'release'));
  assert.ok(isArmed(one), 'its end is heard of meanwhile');
  one.world.ociState = () => Promise.resolve({ status: 'running' });
  await one.clock.advance(400_000);
  assert.equal(stateOf(one), 'running');
});

test('nothing is looked at before requests are taken; what is asked of an object by then waits behind its look', async () => {
  const one = await oneContainer();
  const { rt, clock } = one;
  const serving = Promise.withResolvers<undefined>();
  const order: string[] = [];
  one.world.readExit = () => {
    order.push('look');
    return Promise.resolve(undefined);
  };
  const recovered = recover(
    rt,
    [],
    serving.promise.then(() => undefined),
  );
  const asked = rt.lanes.enqueue(ID, {
    name: 'a request',
    timeoutMs: 10_000,
    run: () => Promise.resolve(void order.push('request')),
  });
  await clock.advance(100);
  assert.deepEqual(order, []);
  serving.resolve(undefined);
  await clock.advance(100);
  await asked;
  assert.deepEqual(order, ['look', 'request']);
  await clock.advance(10_000);
  await recovered;
});

test('cgroups that cannot be listed keep nothing else from being released', async () => {
  const one = await oneContainer();
  const left = 'f'.repeat(64);
  const forgotten: string[] = [];
  const rt = {
    ...one.rt,
    cgroups: { ...one.rt.cgroups, children: () => Promise.reject(new Error('EIO')) },
    tasks: { ...one.rt.tasks, forgetExit: (id: string) => Promise.resolve(void forgotten.push(id)) },
  } as unknown as typeof one.rt;
  const recovered = recover(rt, [{ kind: 'exit-file', id: left }]);
  await one.clock.advance(10_000);
  await recovered;
  assert.deepEqual(forgotten, [left]);
});
