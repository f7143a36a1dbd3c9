import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { ContainerState, type PodSandboxConfig } from '../../../src/cri/gen/api.ts';
import { GantryError, isKind, messageOf } from '../../../src/lib/errors.ts';
import type { FaultPoints } from '../../../src/lib/fault-points.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { eventually } from '../runtime/daemon-process.ts';
import { container, op, pod, RuntimeFixture } from '../runtime/runtime-fixture.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
let f: RuntimeFixture;
let leaks: LeakCheck;
let failure: GantryError | undefined;
/** What the disk does from the moment on in which the command runs. */
let atStart: GantryError | undefined;
/** How many processes of the command there were then. */
let ran = 0;

/** A command line that no other process here has. */
const SECONDS = `6${String(process.pid)}`;

async function running(): Promise<number> {
  const pids = (await readdir('/proc')).filter((name) => /^[0-9]+$/.test(name));
  const lines = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')));
  return lines.filter((line) => line === `sleep\0${SECONDS}\0`).length;
}

const faults: FaultPoints = {
  reach: async (point) => {
    if (point !== 'start-container/command-started' || atStart === undefined) return;
    ran = await eventually(running, (count) => count === 1, 'the command');
    failure = atStart;
  },
  pass: () => undefined,
};

before(async () => {
  if (skip !== false) return;
  f = await RuntimeFixture.make(() => ({ faults, diskFailure: () => failure }));
  leaks = await LeakCheck.begin(f.root.leakRoots());
});

after(async () => {
  if (skip !== false) return;
  await f[Symbol.asyncDispose]();
});

test(
  'a disk that takes nothing more just when the command was started: the caller is told, and the command does not run on',
  { skip },
  async () => {
    for (const [name, error] of [
      ['full', new GantryError('ResourceExhausted', 'store: the disk of runtime.db is full')],
      ['read-only', new GantryError('PermissionDenied', 'store: attempt to write a readonly database')],
    ] as const) {
      const config: PodSandboxConfig = pod(f.root, name);
      const sandboxId = await f.runSandbox(config);
      const id = await f.createContainer(sandboxId, config, container('main', ['sleep', SECONDS]));
      atStart = error;
      ran = 0;
      await assert.rejects(f.cri.startContainer(op, { containerId: id }), (told) => {
        assert.ok(isKind(told, error.kind));
        assert.match(messageOf(told), /started, and ended again because that could not be written down: store: /);
        return true;
      });
      assert.equal(ran, 1, 'it did run');
      assert.equal(await running(), 0, 'and does not any more');
      const status = await f.status(id);
      assert.equal(status.state, ContainerState.CONTAINER_EXITED);
      assert.deepEqual([status.reason, status.exitCode], ['StartError', 128]);
      assert.match(status.message, /could not be written down/);
      // There is room again: the next daemon knows it, too.
      atStart = failure = undefined;
      await eventually(
        () => f.runtime.inspector.pendingWork(op),
        (items) => items.length === 0,
        'the end of what was left to do',
      );
      await f.restart();
      const later = await f.waitFor(id, ({ state }) => state === ContainerState.CONTAINER_EXITED);
      assert.equal(later.reason, 'StartError');
      await f.endPod(sandboxId);
      await leaks.assertNone();
    }
  },
);

test('a file system that has become read-only keeps no container from being stopped', { skip }, async () => {
  const config: PodSandboxConfig = pod(f.root, 'stops');
  const sandboxId = await f.runSandbox(config);
  const id = await f.runContainer(sandboxId, config, container('main', ['sleep', SECONDS]));
  failure = new GantryError('PermissionDenied', 'store: attempt to write a readonly database');
  await f.stop(id, 0);
  const { state, exitCode } = await f.status(id);
  assert.deepEqual([state, exitCode, await running()], [ContainerState.CONTAINER_EXITED, 137, 0]);
  failure = undefined;
  await f.endPod(sandboxId);
  await leaks.assertNone();
});
