import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isKind } from '../../lib/errors.ts';
import { NO_FAULTS } from '../../lib/fault-points.ts';
import { cleanUpContainer } from '../container/clean-up-container.ts';
import { removeContainerById } from '../container/remove-container.ts';
import type { RuntimeContext } from '../context.ts';
import { ID, oneContainer, SANDBOX } from '../fake-one-container.ts';
import { removeSandbox } from '../sandbox/remove-sandbox.ts';
import { stopSandbox } from '../sandbox/stop-sandbox.ts';
import { recordExit } from './record-exit.ts';

/** More than any step in a lane has. */
const LONG_MS = 300_000;

/** What ends in a lane, where it hangs there, and how one sees that it is done. */
const WORK = {
  'a cleanup': {
    id: ID,
    hangsAt: 'the last word of its monitor',
    begin: (rt: RuntimeContext) => cleanUpContainer(rt, ID),
  },
  'a removal of a container': {
    id: ID,
    hangsAt: 'remove-container/released',
    begin: (rt: RuntimeContext) => removeContainerById(rt, ID, 'test'),
  },
  'a stop of a sandbox': {
    id: SANDBOX,
    hangsAt: 'stop-sandbox/namespaces-released',
    begin: (rt: RuntimeContext) => stopSandbox(rt, SANDBOX),
  },
  'a removal of a sandbox': {
    id: SANDBOX,
    hangsAt: 'remove-sandbox/released',
    begin: (rt: RuntimeContext) => removeSandbox(rt, SANDBOX),
  },
};

for (const [what, { id, hangsAt, begin }] of Object.entries(WORK)) {
  test(`${what} that its lane has given up goes on: who asks meanwhile waits for it and begins nothing beside it`, async () => {
    const { rt: plain, clock, world } = await oneContainer();
    const gate = Promise.withResolvers<undefined>();
    let reached = 0;
    const reach = async (point: string): Promise<void> => {
      if (point !== hangsAt) return;
      reached++;
      await gate.promise;
    };
    world.readExit = () => reach('the last word of its monitor').then(() => undefined);
    const exits = { isArmed: () => false, letGo: () => undefined } as unknown as RuntimeContext['exits'];
    const rt = { ...plain, exits, faults: { ...NO_FAULTS, reach } };
    recordExit(rt, ID, { kind: 'unknown', reason: 'its monitor does not react', finishedAtWallMs: 1 });

    const first = begin(rt).catch((error: unknown) => error);
    await clock.advance(LONG_MS);
    assert.ok(isKind(await first, 'DeadlineExceeded'), 'the first is told in time');

    let later = 0;
    for (let caller = 0; caller < 3; caller++) void begin(rt).then(() => later++);
    await clock.advance(LONG_MS);
    assert.equal(reached, 1);
    assert.equal(later, 0);
    assert.deepEqual(rt.lanes.view(id).queued, []);

    gate.resolve(undefined);
    await clock.advance(LONG_MS);
    assert.equal(later, 3);
    assert.equal(rt.lanes.size, 0);
  });
}
