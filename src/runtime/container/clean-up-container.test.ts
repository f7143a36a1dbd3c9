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
