import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RuntimeContext } from '../context.ts';
import { ID, oneContainer, type OneContainer } from '../fake-one-container.ts';
import type { CleanupEvent } from './cleanup-event.ts';
import { handleCleanup } from './handle-cleanup.ts';

/** Each attempt has 10 s, a step in the lane 120 s, the longest pause between two attempts is 5 min: many attempts, and steps given up. */
const LONG_MS = 3_600_000;

interface Hanging {
  readonly one: OneContainer;
  /** When what hangs was begun. */
  readonly begunMs: number[];
  readonly letGo: () => void;
}

/** An event whose work hangs, and heeds no signal, until it is let go. */
async function hanging(event: CleanupEvent, arrange: (one: OneContainer, hang: () => Promise<void>) => RuntimeContext) {
  const one = await oneContainer();
  const gate = Promise.withResolvers<undefined>();
  const told: Hanging = { one, begunMs: [], letGo: () => gate.resolve(undefined) };
  const rt = arrange(one, async () => {
    told.begunMs.push(one.clock.monotonicMs());
    await gate.promise;
  });
  one.world.cleanUp = (present, op) => handleCleanup(op, rt, ID, present);
  void one.rt.retries.attempt(ID, event);
  await one.clock.advance(LONG_MS);
  return told;
}

const WORK: readonly [CleanupEvent, (one: OneContainer, hang: () => Promise<void>) => RuntimeContext][] = [
  [
    { kind: 'rollback', of: 'container' },
    ({ rt }, hang) => {
      const release = (): Promise<[]> => hang().then(() => []);
      // As far as a roll-back asks for them.
      const ledger = { release } as unknown as RuntimeContext['ledger'];
      const containerNames = { release: () => undefined } as unknown as RuntimeContext['containerNames'];
      return { ...rt, ledger, containerNames };
    },
  ],
  [
    { kind: 'recovery', of: 'container' },
    ({ rt, world }, hang) => {
      world.readExit = () => hang().then(() => undefined);
      return rt;
    },
  ],
  [
    { kind: 'orphan', orphan: { kind: 'ledger', owner: `container/${ID}` } },
    ({ rt }, hang) => {
      const release = (): Promise<[]> => hang().then(() => []);
      const ledger = { release, entriesOf: () => [] } as unknown as RuntimeContext['ledger'];
      return { ...rt, ledger };
    },
  ],
];

for (const [event, arrange] of WORK) {
  test(`${event.kind}: what hangs is begun once, however many attempts there are; each next one joins it`, async () => {
    const told = await hanging(event, arrange);
    const { rt, clock } = told.one;
    assert.ok((rt.retries.viewOf(ID)?.attempts ?? 0) > 5);
    assert.equal(told.begunMs.length, 1);
    assert.deepEqual(rt.lanes.view(ID).queued, []);
    told.letGo();
    await clock.advance(LONG_MS);
    assert.equal(rt.retries.viewOf(ID), undefined, 'done');
    assert.deepEqual(told.begunMs.slice(2), [], 'an attempt that did not hear of the end looks once more');
  });
}
