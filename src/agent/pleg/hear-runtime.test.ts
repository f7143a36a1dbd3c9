import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ContainerEventResponse, ContainerEventType } from '../../cri/gen/api.ts';
import type { Op } from '../../lib/abort.ts';
import { canceled, dataLoss } from '../../lib/errors.ts';
import { FakeClock } from '../../lib/fake-clock.ts';
import { silentLog } from '../../lib/log.ts';
import { LABEL_AGENT } from '../pods/names.ts';
import { hearRuntime } from './hear-runtime.ts';
import { Pleg } from './pleg.ts';

const { CONTAINER_CREATED_EVENT, CONTAINER_STARTED_EVENT, CONTAINER_STOPPED_EVENT, CONTAINER_DELETED_EVENT } =
  ContainerEventType;

function event(containerEventType: ContainerEventType, agentId = 'mine'): ContainerEventResponse {
  return ContainerEventResponse.fromPartial({
    containerId: 'c',
    containerEventType,
    podSandboxStatus: { id: 's', labels: { [LABEL_AGENT]: agentId } },
  });
}

/** How often the agent is made to look when it hears these, one stream after the other; the last one stays open. */
async function hints(...streams: readonly (readonly (ContainerEventResponse | Error)[])[]): Promise<number> {
  const clock = new FakeClock();
  const controller = new AbortController();
  const op: Op = { signal: controller.signal, log: silentLog };
  let hinted = 0;
  let begun = 0;
  async function* getContainerEvents(streamOp: Op): AsyncGenerator<ContainerEventResponse> {
    for (const one of streams[begun++] ?? []) {
      if (one instanceof Error) throw one;
      yield await Promise.resolve(one);
    }
    await new Promise((_resolve, reject) => {
      streamOp.signal.addEventListener('abort', () => reject(streamOp.signal.reason as Error), { once: true });
    });
  }
  const heard = hearRuntime(op, { runtime: { getContainerEvents }, clock, agentId: 'mine', hint: () => hinted++ });
  await clock.advance(0);
  controller.abort(canceled('enough'));
  await heard;
  return hinted;
}

test('what starts, stops or goes makes the agent look, if it is its own', async () => {
  assert.equal(await hints([event(CONTAINER_CREATED_EVENT)]), 0);
  assert.equal(await hints([event(CONTAINER_STARTED_EVENT)]), 1);
  assert.equal(await hints([event(CONTAINER_STOPPED_EVENT), event(CONTAINER_DELETED_EVENT)]), 2);
  assert.equal(await hints([event(CONTAINER_STOPPED_EVENT, 'another')]), 0);
  const nobodys = ContainerEventResponse.fromPartial({ containerEventType: CONTAINER_STOPPED_EVENT });
  assert.equal(await hints([nobodys]), 1, 'a sandbox that the runtime could not tell');
});

test('having missed something makes the agent look', async () => {
  assert.equal(await hints([event(CONTAINER_CREATED_EVENT), dataLoss('too slow')], []), 1);
});

test('a runtime without events is listened to no more', async () => {
  const op: Op = { signal: new AbortController().signal, log: silentLog };
  await hearRuntime(op, { runtime: {}, clock: new FakeClock(), agentId: 'mine', hint: () => assert.fail() });
});

test('a hint makes the PLEG look at once, again after a look that is under way, and never after its end', async () => {
  const clock = new FakeClock();
  const op: Op = { signal: new AbortController().signal, log: silentLog };
  let looks = 0;
  let gate = Promise.resolve();
  const runtime = {
    listPodSandbox: async () => {
      looks++;
      await gate;
      return { items: [] };
    },
    listContainers: () => Promise.resolve({ containers: [] }),
  };
  const pleg = new Pleg({ runtime, agentId: 'mine', clock, op, onChange: () => undefined });
  await pleg.start();
  assert.equal(looks, 1);
  pleg.hint();
  await clock.advance(0);
  assert.equal(looks, 2);
  const held = Promise.withResolvers<undefined>();
  gate = held.promise.then(() => undefined);
  for (let n = 0; n < 100; n++) pleg.hint();
  assert.equal(looks, 3);
  held.resolve(undefined);
  await clock.advance(0);
  assert.equal(looks, 4, 'a hundred hints during one look are one look more');
  pleg.stop();
  pleg.hint();
  await clock.advance(10_000);
  assert.equal(looks, 4);
  assert.equal(clock.pendingTimers, 0);
});
