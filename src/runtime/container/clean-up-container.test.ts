import assert from 'node:assert/strict';
import { test } from 'node:test';
import { recordExit } from '../events/record-exit.ts';
import { ID, oneContainer } from '../fake-one-container.ts';
import type { RuntimeContext } from '../context.ts';
import type { ExitStatus } from '../task/exit-status.ts';
import { cleanUpContainer } from './clean-up-container.ts';

const UNKNOWN: ExitStatus = { kind: 'unknown', reason: 'its monitor does not react', finishedAtWallMs: 1 };

/** An exit is told, then its monitor writes a file and is ended with the task. Unless `armed`, nobody else looks for that file. */
async function exitShownAfter(told: ExitStatus, armed = false): Promise<unknown> {
  const { rt, world } = await oneContainer();
  world.readExit = () => Promise.resolve({ code: 4, writtenAtWallMs: 50 });
  recordExit(rt, ID, told);
  const ledger = {
    entriesOf: () => [{ kind: 'task', key: ID }],
    release: () => Promise.resolve([]),
  } as unknown as RuntimeContext['ledger'];
  const exits = { isArmed: () => armed, look: () => undefined } as unknown as RuntimeContext['exits'];
  await cleanUpContainer({ ...rt, ledger, exits }, ID);
  const { state } = rt.containers.must(ID).status;
  return state.kind === 'exited' && state.cause.kind === 'ended' ? state.cause.exit : undefined;
}

test('the last word of a monitor that was ended in the cleanup corrects what had to be told as unknown', async () => {
  assert.deepEqual(await exitShownAfter(UNKNOWN), { kind: 'exited', code: 4, finishedAtWallMs: 50 });
});

test('what is known stays as it was told, and what an exit monitor looks for is left to that: it is corrected once', async () => {
  const known: ExitStatus = { kind: 'exited', code: 3, finishedAtWallMs: 40 };
  assert.deepEqual(await exitShownAfter(known), known);
  assert.deepEqual(await exitShownAfter(UNKNOWN, true), UNKNOWN);
});

/** When the task of a container that ended so is taken away, on a disk that takes the exit after `diskMs` (never: undefined). */
async function releasedAfterMs(told: ExitStatus, diskMs: number | undefined): Promise<number | undefined> {
  const { rt, clock, holdDisk } = await oneContainer();
  const exits = { isArmed: () => true, look: () => undefined } as unknown as RuntimeContext['exits'];
  let releasedAtMs: number | undefined;
  const ledger = {
    entriesOf: () => [{ kind: 'task', key: ID }],
    release: () => {
      releasedAtMs ??= clock.monotonicMs();
      return Promise.resolve([]);
    },
  } as unknown as RuntimeContext['ledger'];
  const release = holdDisk();
  recordExit(rt, ID, told);
  const done = cleanUpContainer({ ...rt, ledger, exits }, ID);
  if (diskMs !== undefined) clock.after(diskMs, release);
  await clock.advance(60_000);
  await done;
  return releasedAtMs;
}

test('what only the kernel knew of an exit is on disk before it is taken away, unless the disk takes nothing', async () => {
  const base = { kind: 'exited', code: 137, signal: 9, finishedAtWallMs: 1 } as const;
  for (const told of [{ ...base, oom: 'init' } as const, { ...base, logMayBeIncomplete: true }]) {
    assert.equal(await releasedAfterMs(told, 0), 0);
    assert.equal(await releasedAfterMs(told, 1_000), 1_000);
    assert.equal(await releasedAfterMs(told, undefined), 5_000);
  }
  assert.equal(await releasedAfterMs(base, 1_000), 0, 'its exit file says the same');
  assert.equal(await releasedAfterMs(UNKNOWN, 1_000), 0, 'there is nothing to lose');
});
