import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GantryError, isKind } from '../../lib/errors.ts';
import { silentLog } from '../../lib/log.ts';
import { recordExit } from '../events/record-exit.ts';
import { BOOT, ID, oneContainer, TASK, type OneContainer } from '../fake-one-container.ts';
import { shownReason } from './exit-reason.ts';
import { transition } from './state.ts';
import { driveStop, stopContainer } from './stop-container.ts';

const op = { signal: new AbortController().signal, log: silentLog };
const SIGNALS = /^(signal|kill all|thaw)/;

const signals = ({ done }: OneContainer): (readonly [string, number])[] => done.filter(([what]) => SIGNALS.test(what));
const stop = ({ rt }: OneContainer, seconds: number): Promise<unknown> =>
  stopContainer(op, rt, { containerId: ID, timeout: BigInt(seconds) });
const end = ({ rt, clock }: OneContainer, code: number): void =>
  recordExit(rt, ID, { kind: 'exited', code, finishedAtWallMs: clock.wallMs() });

test('the signal, then the thaw, then the grace, then SIGKILL to all of it', async () => {
  const one = await oneContainer();
  const stopped = stop(one, 10);
  await one.clock.advance(10_100);
  assert.deepEqual(signals(one), [
    ['signal 15', 0],
    ['thaw', 0],
    ['signal 9', 10_000],
    ['kill all', 10_000],
  ]);
  end(one, 137);
  await stopped;
});

test('a thaw that fails is told, and the signal counts as sent: the grace is not cut short', async () => {
  const one = await oneContainer();
  one.world.thaw = () => Promise.reject(new GantryError('Internal', 'no freezer'));
  const stopped = stop(one, 10);
  await one.clock.advance(9_000);
  assert.deepEqual(
    signals(one).map(([what]) => what),
    ['signal 15', 'thaw'],
  );
  assert.ok(one.journal.some(({ message, outcome }) => /no freezer/.test(message) && outcome === 'failed'));
  end(one, 0);
  await stopped;
});

test('a signal that cannot be sent is followed by SIGKILL 2 s later', async () => {
  const one = await oneContainer();
  one.world.signal = (signal) =>
    signal === 15 ? Promise.reject(new GantryError('Internal', 'not today')) : Promise.resolve(true);
  const stopped = stop(one, 60);
  await one.clock.advance(3_000);
  assert.deepEqual(
    signals(one).filter(([what]) => what === 'signal 9'),
    [['signal 9', 2_000]],
  );
  end(one, 137);
  await stopped;
});

test('a SIGKILL that ends nothing is said with pid, state and what it waits in; the stop goes on and ends by itself', async () => {
  const one = await oneContainer();
  const stopped = stop(one, 0);
  stopped.catch(() => undefined);
  await one.clock.advance(3_000);
  const blocked = one.rt.containers.must(ID).status;
  assert.deepEqual(shownReason(blocked), {
    reason: 'StopBlocked',
    message: 'pid 100 (sleep) in state D, waiting in nfs',
  });
  assert.ok(one.journal.some(({ what, outcome }) => what === 'container.stop-blocked' && outcome === 'blocked'));
  await one.clock.advance(28_000);
  await assert.rejects(stopped, (error) => {
    assert.ok(isKind(error, 'DeadlineExceeded') && error instanceof GantryError);
    assert.match(error.message, /does not end: pid 100 \(sleep\) in state D, waiting in nfs/);
    assert.equal(error.details['reason'], 'StopBlocked');
    return true;
  });
  const kills = signals(one).length;
  await one.clock.advance(120_000);
  assert.ok(signals(one).length > kills, 'it is tried on');
  end(one, 137);
  await stop(one, 0);
});

test('a shorter request acts at once, a longer one not at all', async () => {
  const one = await oneContainer();
  const [long, longer] = [stop(one, 300), stop(one, 600)];
  await one.clock.advance(1_000);
  const short = stop(one, 1);
  await one.clock.advance(1_100);
  assert.deepEqual(signals(one).at(-1), ['kill all', 2_000]);
  end(one, 137);
  await Promise.all([long, longer, short]);
  assert.equal(signals(one).filter(([what]) => what === 'signal 15').length, 1);
});

test('the next process goes on with the deadline that was written down, without a second signal', async () => {
  const one = await oneContainer();
  const intent = {
    deadlineBoottimeMs: 5_000,
    bootId: BOOT,
    signal: 15,
    reason: 'asked of the one before',
    requestedAtWallMs: 1,
    signalSentBoottimeMs: 0,
    kills: 0,
  };
  await one.rt.containers.update(ID, (status) => transition(status, { kind: 'stop-changed', stop: intent }));
  await one.clock.advance(2_000);
  driveStop(one.rt, ID);
  await one.clock.advance(4_000);
  assert.deepEqual(signals(one), [
    ['signal 9', 5_000],
    ['kill all', 5_000],
  ]);
});

test('one that is UNKNOWN is stopped like any other', async () => {
  const one = await oneContainer();
  one.rt.containers.publishFirst(ID, (status) =>
    transition(status, { kind: 'lost-sight', why: 'asked in vain', atWallMs: 1 }),
  );
  const stopped = stop(one, 1);
  await one.clock.advance(1_100);
  assert.deepEqual(
    signals(one).map(([what]) => what),
    ['signal 15', 'thaw', 'signal 9', 'kill all'],
  );
  end(one, 137);
  await stopped;
  assert.equal(one.rt.containers.must(ID).status.state.kind, 'exited');
});

test('a caller that leaves ends nothing; one who comes after the end has nothing to wait for', async () => {
  const one = await oneContainer();
  const caller = new AbortController();
  const left = stopContainer({ ...op, signal: caller.signal }, one.rt, { containerId: ID, timeout: 5n });
  await one.clock.advance(0);
  caller.abort(new Error('gone'));
  await assert.rejects(left, /gone/);
  await one.clock.advance(5_100);
  assert.deepEqual(signals(one).at(-1), ['kill all', 5_000]);
  end(one, 137);
  await stop(one, 300);
});

test('a wall clock that is set in the middle of a stop moves no deadline, and the end is not before the start', async () => {
  for (const stepMs of [-40_000, 3_600_000]) {
    const one = await oneContainer();
    const stopped = stop(one, 10);
    await one.clock.advance(4_000);
    one.clock.stepWall(stepMs);
    await one.clock.advance(5_900);
    assert.ok(!signals(one).some(([what]) => what === 'signal 9'));
    await one.clock.advance(200);
    assert.deepEqual(signals(one).at(-1), ['kill all', 10_000]);
    recordExit(one.rt, ID, { kind: 'exited', code: 137, finishedAtWallMs: 5 });
    await stopped;
    const { state } = one.rt.containers.must(ID).status;
    assert.ok(state.kind === 'exited' && state.finishedAtWallMs >= (state.startedAtWallMs ?? 0));
  }
});

const blockedWords = ({ journal }: OneContainer): string[] =>
  journal.flatMap(({ what, message }) => (what === 'container.stop-blocked' ? [message] : []));

test('SIGKILL does not end it: who is left is told, until he is gone', async () => {
  const one = await oneContainer();
  const stopped = stop(one, 0);
  const refused = assert.rejects(
    stopped,
    (error) => isKind(error, 'DeadlineExceeded') && !/state D/.test(String(error)),
  );
  await one.clock.advance(5_000);
  assert.deepEqual(blockedWords(one), [
    `SIGKILL has not ended it: pid ${String(TASK.pid)} (sleep) in state D, waiting in nfs`,
  ]);
  assert.match(one.rt.containers.must(ID).status.stop?.blocked ?? '', /state D/);
  // Listed, and dead by the time at which he is looked at; or not listed any more.
  one.world.describe = () => Promise.resolve('');
  await one.clock.advance(10_000);
  one.world.procs = () => Promise.resolve([]);
  await one.clock.advance(20_000);
  await refused;
  assert.equal(blockedWords(one).length, 1, 'nobody is named as nothing');
  assert.equal(one.rt.containers.must(ID).status.stop?.blocked, undefined);
});

test('outside its cgroup only its own process is named, and not who has its number by now', async () => {
  for (const alive of [true, false]) {
    const one = await oneContainer();
    one.world.procs = () => Promise.resolve([7]);
    one.world.alive = () => Promise.resolve(alive);
    const stopped = assert.rejects(stop(one, 0));
    await one.clock.advance(5_000);
    assert.equal(blockedWords(one).length, 1);
    assert.equal(blockedWords(one)[0]?.includes(`pid ${String(TASK.pid)} `), alive);
    await one.clock.advance(60_000);
    await stopped;
  }
});

test('SIGKILL is sent again also when nobody can say who is left', async () => {
  const one = await oneContainer();
  one.world.procs = () => Promise.reject(new GantryError('Unavailable', 'too many open files'));
  const stopped = assert.rejects(stop(one, 0), /too many open files/);
  await one.clock.advance(60_000);
  await stopped;
  assert.ok(signals(one).filter(([what]) => what === 'kill all').length > 2);
});
