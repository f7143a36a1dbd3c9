import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { ContainerState, type ContainerStatus } from '../../../src/cri/gen/api.ts';
import { canceled, isKind } from '../../../src/lib/errors.ts';
import { silentLog } from '../../../src/lib/log.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { container, op, pod, RuntimeFixture } from './runtime-fixture.ts';

const root = process.getuid?.() !== 0 && 'needs root';

/**
 * A caller whose connection breaks, or whose deadline passes, does not know what became of its call, and repeats it: it gets the result
 * of the first. Whoever has had the result and starts again has made a mistake, and is told.
 */
let f: RuntimeFixture;
let leaks: LeakCheck;
let sandboxId: string;
const config = (): ReturnType<typeof pod> => pod(f.root, 'again');

before(async () => {
  if (root !== false) return;
  f = await RuntimeFixture.make();
  leaks = await LeakCheck.begin(f.root.leakRoots());
  sandboxId = await f.runSandbox(config());
});
after(async () => {
  if (root !== false) return;
  try {
    await f.endPod(sandboxId);
    await leaks.assertNone();
  } finally {
    await f[Symbol.asyncDispose]();
  }
});

const refused = (error: unknown): boolean => isKind(error, 'FailedPrecondition');
const start = async (containerId: string): Promise<void> => {
  await f.cri.startContainer(op, { containerId });
};

/** Started by a caller that has left before there was an answer. */
async function unanswered(
  name: string,
  argv: readonly string[],
  until: (status: ContainerStatus) => boolean,
): Promise<string> {
  const containerId = await f.createContainer(sandboxId, config(), container(name, [...argv]));
  const caller = new AbortController();
  const call = f.cri.startContainer({ signal: caller.signal, log: silentLog }, { containerId });
  caller.abort(canceled('the connection broke'));
  await assert.rejects(call, (error) => isKind(error, 'Canceled'));
  await f.waitFor(containerId, until);
  return containerId;
}
const runs = ({ state }: ContainerStatus): boolean => state === ContainerState.CONTAINER_RUNNING;
const ended = ({ state }: ContainerStatus): boolean => state === ContainerState.CONTAINER_EXITED;

test('a start that nobody was told of is told to who asks again, once', { skip: root }, async () => {
  const id = await unanswered('runs', ['sleep', '600'], runs);
  await start(id);
  await assert.rejects(start(id), refused);
  await f.stop(id, 0);
});

test('also when the container has ended meanwhile', { skip: root }, async () => {
  const id = await unanswered('ended', ['true'], ended);
  await start(id);
  await assert.rejects(start(id), refused);
});

test('one that failed fails in the same words', { skip: root }, async () => {
  const id = await unanswered('failed', ['/no/such/command'], ended);
  await assert.rejects(start(id), /no such file|not found/i);
});

test('the next daemon knows who has had an answer', { skip: root }, async () => {
  const told = await f.runContainer(sandboxId, config(), container('told', ['sleep', '600']));
  const untold = await unanswered('untold', ['sleep', '600'], runs);
  await f.restart();
  await f.runtime.recovered;
  await assert.rejects(start(told), refused);
  await start(untold);
  await assert.rejects(start(untold), refused);
  await f.stop(told, 0);
  await f.stop(untold, 0);
});
