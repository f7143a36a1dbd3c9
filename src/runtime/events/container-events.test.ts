import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ContainerEventType, ContainerState, PodSandboxState } from '../../cri/gen/api.ts';
import type { ContainerEventResponse } from '../../cri/gen/api.ts';
import type { Op } from '../../lib/abort.ts';
import { isKind } from '../../lib/errors.ts';
import { silentLog } from '../../lib/log.ts';
import { newContainerStatus, transition, type ContainerEvent as Change } from '../container/state.ts';
import { transition as sandboxTransition } from '../sandbox/state.ts';
import type { ContainerEvent } from './container-events.ts';
import type { News } from './event-log.ts';
import { EXITED, FakeRecords, startSteps } from './fake-records.ts';
import { getContainerEvents } from './get-container-events.ts';

const SEED = 20_261_121;
const op: Op = { signal: new AbortController().signal, log: silentLog };

async function next<T>(news: AsyncIterator<T, unknown>): Promise<T> {
  const result = await news.next();
  assert.notEqual(result.done, true);
  return result.value as T;
}

test('a pod from beginning to end, as a kubelet is told of it', async () => {
  const r = await FakeRecords.open();
  const told = getContainerEvents(op, r)[Symbol.asyncIterator]();
  await r.sandbox('s');
  await r.container('c', 's');
  await r.change('c', { kind: 'created' }, ...startSteps('c'));
  await r.clock.advance(5_000);
  r.containers.publishFirst('c', (status) => transition(status, EXITED));
  await r.containers.remove('c');
  await r.sandboxes.update('s', (status) => sandboxTransition(status, { kind: 'stopped', atWallMs: 9 }));
  await r.sandboxes.remove('s');

  const { CONTAINER_CREATED_EVENT, CONTAINER_STARTED_EVENT, CONTAINER_STOPPED_EVENT, CONTAINER_DELETED_EVENT } =
    ContainerEventType;
  const { CONTAINER_CREATED, CONTAINER_RUNNING, CONTAINER_EXITED } = ContainerState;
  const { SANDBOX_READY, SANDBOX_NOTREADY } = PodSandboxState;
  // Each with its pod as it was at that moment, however late it is read.
  const expected = [
    ['s', CONTAINER_CREATED_EVENT, SANDBOX_READY, []],
    ['s', CONTAINER_STARTED_EVENT, SANDBOX_READY, []],
    ['c', CONTAINER_CREATED_EVENT, SANDBOX_READY, [CONTAINER_CREATED]],
    ['c', CONTAINER_STARTED_EVENT, SANDBOX_READY, [CONTAINER_RUNNING]],
    ['c', CONTAINER_STOPPED_EVENT, SANDBOX_READY, [CONTAINER_EXITED]],
    ['c', CONTAINER_DELETED_EVENT, SANDBOX_READY, []],
    ['s', CONTAINER_STOPPED_EVENT, SANDBOX_NOTREADY, []],
    ['s', CONTAINER_DELETED_EVENT, SANDBOX_NOTREADY, []],
  ] as const;
  const events: ContainerEventResponse[] = [];
  for (const [id, type, state, containers] of expected) {
    const event = await next(told);
    events.push(event);
    assert.deepEqual([event.containerId, event.containerEventType, event.podSandboxStatus?.state], [id, type, state]);
    assert.deepEqual(
      event.containersStatuses.map((status) => status.state),
      containers,
    );
    assert.equal(event.podSandboxStatus?.metadata?.uid, 'uid-s');
  }
  assert.equal(events[0]?.podSandboxStatus?.network?.ip, '10.0.0.2');
  assert.equal(events[4]?.containersStatuses[0]?.exitCode, 3);
  const at = (index: number): bigint => events[index]?.createdAt ?? 0n;
  assert.equal(at(4) - at(3), 5_000_000_000n);
});

test('times never step back, whatever is done to the wall clock', async () => {
  const r = await FakeRecords.open();
  const told = getContainerEvents(op, r)[Symbol.asyncIterator]();
  await r.sandbox('s');
  r.clock.stepWall(-3_600_000);
  await r.sandbox('t');
  const times: bigint[] = [];
  for (let n = 0; n < 4; n++) times.push((await next(told)).createdAt);
  assert.deepEqual(
    times,
    times.map(() => times[0]),
  );
  r.clock.stepWall(7_200_000);
  await r.sandbox('u');
  assert.equal((await next(told)).createdAt - (times[0] ?? 0n), 3_600_000_000_000n);
});

test('a reader that is too slow is told so: in process by a number, over CRI by DataLoss', async () => {
  const r = await FakeRecords.open(4);
  const inProcess = r.events.follow(op);
  const wire = getContainerEvents(op, r)[Symbol.asyncIterator]();
  for (const id of ['a', 'b', 'c']) await r.sandbox(id);
  assert.deepEqual(await next(inProcess), { kind: 'lost', count: 2, nextSeq: 3 });
  assert.equal(((await next(inProcess)) as News<ContainerEvent> & { kind: 'event' }).value.id, 'b');
  await assert.rejects(
    wire.next(),
    (error) => isKind(error, 'DataLoss') && /2 container events are lost/.test(String(error)),
  );
  assert.equal((await wire.next()).done, true);
});

test('what was there before is not told, and a change that fails on disk is not either', async () => {
  const r = await FakeRecords.open();
  await r.sandbox('s');
  await r.container('c', 's');
  const { lastSeq } = r.events;
  await assert.rejects(r.containers.insert(r.containers.must('c').meta, newContainerStatus(1)));
  await r.change('c', { kind: 'removal-wanted', atWallMs: 4 });
  assert.equal(r.events.lastSeq, lastSeq);
  const news = r.events.follow(op);
  await r.change('c', { kind: 'created' });
  const first = await next(news);
  assert.equal(first.kind === 'event' && first.value.type, 'created');
});

test('whatever happens to several containers at once, each one is told in order and what is told could be seen', async () => {
  const steps: fc.Arbitrary<Change | 'remove'> = fc.constantFrom<Change | 'remove'>(
    { kind: 'created' },
    ...startSteps('x'),
    EXITED,
    { kind: 'exited', exit: { kind: 'unknown', reason: 'x', finishedAtWallMs: 50 } },
    { kind: 'lost-sight', why: 'x', atWallMs: 40 },
    { kind: 'verified' },
    { kind: 'start-failed', message: 'x', atWallMs: 30 },
    'remove',
  );
  const ORDER = ['created', 'started', 'stopped', 'deleted'];
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(fc.nat(3), steps), { maxLength: 60 }), async (list) => {
      const r = await FakeRecords.open();
      await r.sandbox('s');
      for (let n = 0; n < 4; n++) await r.container(`c${String(n)}`, 's');
      const news = r.events.follow(op);
      const from = r.events.lastSeq;
      for (const [n, step] of list) {
        const id = `c${String(n)}`;
        if (r.containers.get(id) === undefined) continue;
        if (step === 'remove') await r.containers.remove(id);
        else await r.change(id, step).catch(() => undefined);
      }
      const told = new Map<string, string[]>();
      for (let seq = from + 1; seq <= r.events.lastSeq; seq++) {
        const one = await next(news);
        assert.ok(one.kind === 'event');
        assert.equal(one.seq, seq);
        const { id, type, containers } = one.value;
        told.set(id, [...(told.get(id) ?? []), type]);
        const state = containers.find(({ meta }) => meta.id === id)?.status.state.kind;
        if (type === 'deleted') assert.equal(state, undefined);
        if (type === 'created') assert.ok(state !== undefined && state !== 'creating');
      }
      for (const [id, types] of told) {
        assert.deepEqual(
          types,
          ORDER.filter((type) => types.includes(type)),
        );
        const state = r.containers.get(id)?.status.state.kind;
        assert.equal(types.includes('deleted'), state === undefined);
        if (state === 'exited') assert.ok(types.includes('stopped'));
        if (state === 'running' || state === 'unknown') assert.deepEqual(types, ['created', 'started']);
      }
    }),
    { seed: SEED, numRuns: 200 },
  );
});
