import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Op } from '../../lib/abort.ts';
import { failedPrecondition, unavailable } from '../../lib/errors.ts';
import { silentLog } from '../../lib/log.ts';
import type { RuntimeContext } from '../context.ts';
import { SingleFlight } from '../events/single-flight.ts';
import { ID, oneContainer } from '../fake-one-container.ts';
import { noteTold, startContainer } from './start-container.ts';
import { ToldStarts } from './told-starts.ts';

const op: Op = { signal: new AbortController().signal, log: silentLog };

/** A container that runs, whose caller was not told of it, as a daemon that was killed leaves it. */
async function untold(): Promise<{ rt: RuntimeContext; failNext: (error: Error) => void }> {
  const { rt: parts, clock } = await oneContainer();
  let failure: Error | undefined;
  const starts = new SingleFlight();
  const rt: RuntimeContext = {
    ...parts,
    starts: {
      run: async (key: string, work: () => Promise<void>) => {
        const error = failure;
        failure = undefined;
        if (error !== undefined) throw error;
        await starts.run(key, work);
      },
    } as unknown as RuntimeContext['starts'],
    toldStarts: new ToldStarts(clock, (id) => noteTold(rt, id)),
  };
  return { rt, failNext: (error) => (failure = error) };
}

const start = (rt: RuntimeContext): Promise<unknown> => startContainer(op, rt, { containerId: ID });

test('nobody was told: the next call gets the outcome, the one after it is a mistake', async () => {
  const { rt } = await untold();
  await start(rt);
  await assert.rejects(start(rt), { kind: 'FailedPrecondition' });
});

test('who is told to come back later has not been told of the start', async () => {
  const { rt, failNext } = await untold();
  failNext(unavailable('it is being recovered'));
  await assert.rejects(start(rt), { kind: 'Unavailable' });
  await start(rt);
});

test('a failure of the start itself is what was to be told', async () => {
  const { rt, failNext } = await untold();
  failNext(failedPrecondition('no such command'));
  await assert.rejects(start(rt), { kind: 'FailedPrecondition' });
  assert.ok(rt.toldStarts.has(ID));
});
