import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Op } from '../../lib/abort.ts';
import { failedPrecondition, internal, isKind, messageOf, unavailable } from '../../lib/errors.ts';
import { silentLog } from '../../lib/log.ts';
import { SingleFlight } from '../../lib/single-flight.ts';
import type { RuntimeContext } from '../context.ts';
import { recordExit } from '../events/record-exit.ts';
import { ID, oneContainer, TASK, type OneContainer } from '../fake-one-container.ts';
import { noteTold, startContainer } from './start-container.ts';
import type { ContainerState } from './state.ts';
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

/** A CREATED container whose start the OCI runtime says has failed. What `world` says then is what counts. */
async function failingStart(arrange: (one: OneContainer) => void): Promise<OneContainer & { told: unknown }> {
  const one = await oneContainer(1);
  const { rt: parts, clock } = one;
  const done = (): Promise<void> => Promise.resolve();
  const rt = {
    ...parts,
    starts: new SingleFlight(),
    toldStarts: new ToldStarts(clock, (id) => noteTold(rt, id)),
    folders: { make: done },
    snapshots: { mount: done },
    specs: { taskTraces: () => ({}), task: () => Promise.resolve({ request: {}, user: USER }) },
    ledger: {
      intend: done,
      hold: done,
      release: () => {
        one.done.push(['release', clock.monotonicMs()]);
        return Promise.resolve([]);
      },
    },
    tasks: {
      create: () => Promise.resolve(TASK),
      start: () => {
        arrange(one);
        return Promise.reject(internal('crun start: killed'));
      },
      state: () => one.world.ociState(),
    },
  } as unknown as RuntimeContext;
  const answer = { told: undefined as unknown };
  start(rt).catch((error: unknown) => (answer.told = error));
  await clock.advance(20_000);
  return { ...one, ...answer };
}

const USER = { uid: 0, gid: 0, additionalGids: [] };
const stateOf = ({ rt }: OneContainer): ContainerState => rt.containers.must(ID).status.state;
const isReleased = ({ done }: OneContainer): boolean => done.some(([what]) => what === 'release');

test('the OCI runtime fails to start what ran and has ended: its exit counts, told a moment later or not', async () => {
  for (const toldAfterMs of [0, 1_500, 8_000]) {
    const one = await failingStart(({ rt, world, clock }) => {
      world.alive = () => Promise.resolve(false);
      clock.after(toldAfterMs, () => recordExit(rt, ID, { kind: 'exited', code: 3, finishedAtWallMs: 1 }));
    });
    assert.equal(one.told, undefined);
    const state = stateOf(one);
    assert.ok(state.kind === 'exited' && state.cause.kind === 'ended' && state.cause.exit.kind === 'exited');
    assert.equal(state.cause.exit.code, 3);
  }
});

test('the OCI runtime fails to start what runs: it is running', async () => {
  const one = await failingStart(() => undefined);
  assert.equal(one.told, undefined);
  assert.equal(stateOf(one).kind, 'running');
  assert.ok(!isReleased(one));
});

test('the OCI runtime fails to start, and its command waits still: that is a start that failed', async () => {
  const one = await failingStart(({ world }) => {
    world.ociState = () => Promise.resolve({ status: 'created' });
  });
  assert.match(messageOf(one.told), /crun start: killed/);
  const state = stateOf(one);
  assert.ok(state.kind === 'exited' && state.cause.kind === 'start-failed');
  assert.ok(isReleased(one));
});

test('the OCI runtime fails to start and does not say what became of it: nothing is undone, and recovery goes on asking', async () => {
  const one = await failingStart(({ world }) => {
    world.ociState = () => Promise.reject(new Error('the OCI runtime hangs'));
  });
  assert.ok(isKind(one.told, 'Unavailable'));
  assert.match(messageOf(one.told), /not known yet: crun start: killed/);
  assert.equal(one.rt.containers.must(ID).status.start?.phase, 'released');
  assert.ok(!isReleased(one));
  assert.ok(one.done.some(([what]) => what.startsWith('recovery')));
});
