import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isKind } from '../../lib/errors.ts';
import { removeContainerById } from '../container/remove-container.ts';
import { handleCleanup } from '../events/handle-cleanup.ts';
import { recordExit } from '../events/record-exit.ts';
import { ID, oneContainer, SANDBOX, type OneContainer } from '../fake-one-container.ts';
import { removeSandbox } from './remove-sandbox.ts';
import { stopSandbox } from './stop-sandbox.ts';

/** A pod whose container runs, on a disk that takes nothing any more, its reserve included. */
async function onFullDisk(): Promise<OneContainer & { readonly makeRoom: () => void }> {
  const one = await oneContainer();
  const { rt, world } = one;
  world.killAll = () => {
    recordExit(rt, ID, { kind: 'exited', code: 137, finishedAtWallMs: rt.clock.wallMs() });
    return Promise.resolve();
  };
  world.cleanUp = (event, op, id) => handleCleanup(op, rt, id, event);
  return { ...one, makeRoom: one.fillDisk() };
}

test('StopPodSandbox ends all containers and releases the pod', async () => {
  const { rt, clock, makeRoom } = await onFullDisk();
  await stopSandbox(rt, SANDBOX);
  assert.equal(rt.containers.must(ID).status.state.kind, 'exited');
  assert.equal(rt.sandboxes.must(SANDBOX).status.stopped, true);
  assert.deepEqual([rt.containers.unpersisted, rt.sandboxes.unpersisted], [[ID], [SANDBOX]]);
  makeRoom();
  await clock.advance(2_000);
  assert.deepEqual([rt.containers.unpersisted, rt.sandboxes.unpersisted], [[], []]);
});

test('RemoveContainer ends it and says that the disk is full; it is finished when there is room again', async () => {
  const { rt, clock, makeRoom } = await onFullDisk();
  await assert.rejects(removeContainerById(rt, ID, 'test'), (error) => isKind(error, 'ResourceExhausted'));
  assert.equal(rt.containers.must(ID).status.state.kind, 'exited');
  assert.ok(rt.containers.must(ID).status.removing);
  makeRoom();
  await clock.advance(400_000);
  assert.equal(rt.containers.get(ID), undefined);
});

test('RemovePodSandbox ends all of it and says that the disk is full; it is finished when there is room again', async () => {
  const { rt, clock, makeRoom } = await onFullDisk();
  await assert.rejects(removeSandbox(rt, SANDBOX), (error) => isKind(error, 'ResourceExhausted'));
  assert.equal(rt.containers.must(ID).status.state.kind, 'exited');
  const { stopped, removing } = rt.sandboxes.must(SANDBOX).status;
  assert.ok(stopped === true && removing !== undefined);
  makeRoom();
  await clock.advance(400_000);
  assert.equal(rt.sandboxes.get(SANDBOX), undefined);
  assert.equal(rt.containers.get(ID), undefined);
});
