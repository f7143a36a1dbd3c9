import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GantryError } from '../../lib/errors.ts';
import { ID, oneContainer, SANDBOX } from '../fake-one-container.ts';
import type { ExitStatus } from '../task/exit-status.ts';
import { correctExit, recordExit } from './record-exit.ts';

const exit = (code: number): ExitStatus => ({ kind: 'exited', code, finishedAtWallMs: 30 });
const UNKNOWN: ExitStatus = { kind: 'unknown', reason: 'nobody can tell', finishedAtWallMs: 30 };

test('seen at once, whatever the disk does; then told, then cleaned up after', async () => {
  const { rt, clock, done, journal, holdDisk } = await oneContainer();
  const release = holdDisk();
  recordExit(rt, ID, exit(7));
  const { state } = rt.containers.must(ID).status;
  assert.ok(state.kind === 'exited' && state.cause.kind === 'ended');
  assert.deepEqual(state.cause.exit, exit(7));
  assert.deepEqual(rt.containers.unpersisted, [ID]);
  assert.deepEqual(
    journal.map(({ what, message }) => [what, message]),
    [['container.exited', 'ended with code 7 (Error)']],
  );
  await clock.advance(0);
  assert.deepEqual(done, [['container-cleanup', 0]]);
  release();
  await clock.advance(0);
  assert.deepEqual(rt.containers.unpersisted, []);
});

test('told once: a second word changes, tells and cleans up nothing; an unknown one is corrected', async () => {
  const { rt, clock, done, journal } = await oneContainer();
  recordExit(rt, ID, UNKNOWN);
  recordExit(rt, ID, UNKNOWN);
  await clock.advance(0);
  assert.equal(done.length, 1);
  correctExit(rt, ID, exit(3));
  await clock.advance(0);
  recordExit(rt, ID, exit(4));
  await clock.advance(0);
  assert.deepEqual(
    journal.map(({ what }) => what),
    ['container.exited', 'container.exit-corrected'],
  );
  const { state } = rt.containers.must(ID).status;
  assert.ok(state.kind === 'exited' && state.cause.kind === 'ended' && state.cause.exit.kind === 'exited');
  assert.equal(state.cause.exit.code, 3);
});

test('a cleanup that fails is tried again, and the exit stays what it is', async () => {
  const { rt, clock, done, world } = await oneContainer();
  world.cleanUp = () => Promise.reject(new GantryError('DeadlineExceeded', 'umount hangs'));
  recordExit(rt, ID, exit(0));
  await clock.advance(3_500);
  assert.deepEqual(done, [
    ['container-cleanup', 0],
    ['container-cleanup', 1_000],
    ['container-cleanup', 3_000],
  ]);
  assert.equal(rt.retries.viewOf(ID)?.lastError, 'umount hangs');
  assert.equal(rt.containers.must(ID).status.state.kind, 'exited');
});

test('an exit that cannot be told of is cleaned up after all the same', async () => {
  const { rt, clock, done } = await oneContainer();
  const journal = {
    record: () => {
      throw new Error('the journal is closed');
    },
  } as unknown as typeof rt.journal;
  assert.throws(() => recordExit({ ...rt, journal }, ID, exit(7)), /closed/);
  await clock.advance(0);
  assert.deepEqual(done, [['container-cleanup', 0]]);
});

test('the end of the process that holds a PID namespace is the end of READY, told once', async () => {
  const { rt, journal, done } = await oneContainer();
  recordExit(rt, SANDBOX, exit(0));
  recordExit(rt, SANDBOX, exit(0));
  assert.equal(rt.sandboxes.must(SANDBOX).status.state.kind, 'notready');
  assert.deepEqual(
    journal.map(({ what }) => what),
    ['sandbox.infra-exited'],
  );
  assert.deepEqual(done, []);
  assert.equal(rt.containers.must(ID).status.state.kind, 'running');
});

test('an id that nobody knows is ignored', async () => {
  const { rt, journal, done } = await oneContainer();
  recordExit(rt, 'e'.repeat(64), exit(0));
  correctExit(rt, 'e'.repeat(64), exit(0));
  assert.deepEqual([journal, done], [[], []]);
});
