import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { test } from 'node:test';
import { ContainerState, NamespaceMode, PodSandboxState, type ContainerStatus } from '../../../src/cri/gen/api.ts';
import { isKind, messageOf } from '../../../src/lib/errors.ts';
import { eventually } from '../runtime/daemon-process.ts';
import { container, op, pod } from '../runtime/runtime-fixture.ts';
import { silentShareBench } from './silent-share.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const benchOf = silentShareBench(skip);

const exited = ({ state }: ContainerStatus): boolean => state === ContainerState.CONTAINER_EXITED;

/** FAILURES.md row 22. A read of a share that does not answer is the same on every layout of cgroups; a frozen process is not. */
test(
  'SIGKILL that does not kill: said with pid, state and place, nobody else waits, and it ends by itself',
  { skip },
  async () => {
    const { f, leaks, share } = benchOf();
    const config = pod(f.root, 'stuck', { network: NamespaceMode.POD });
    const sandboxId = await f.runSandbox(config);
    const mounts = [{ containerPath: '/share', hostPath: share.dir }];
    const stuck = await f.runContainer(sandboxId, config, container('stuck', ['cat', '/share/silent'], { mounts }));
    const beside = await f.runContainer(sandboxId, config, container('beside', ['sleep', '600']));
    await share.opened();

    const stop = f.stop(stuck, 0);
    const stopOfPod = f.cri.stopPodSandbox(op, { podSandboxId: sandboxId });
    for (const call of [stop, stopOfPod]) call.catch(() => undefined);
    const blocked = await f.waitFor(stuck, ({ reason }) => reason === 'StopBlocked');
    assert.equal(blocked.state, ContainerState.CONTAINER_RUNNING);
    const words = /pid \d+ \(cat\) in state D, waiting in \w+/;
    assert.match(blocked.message, words);
    const subject = { podName: 'stuck' };
    const { entries, pending } = await f.runtime.inspector.explain(op, { subject });
    assert.ok(entries.some(({ what, message }) => what === 'container.stop-blocked' && words.test(message)));
    const item = pending.find(({ kind }) => kind === 'stop');
    assert.match(item?.message ?? '', words);
    assert.ok((item?.attempts ?? 0) >= 2, 'it is tried again');

    // Neither its neighbour in the pod nor another pod waits for it.
    assert.equal((await f.waitFor(beside, exited)).exitCode, 137);
    const other = pod(f.root, 'other');
    const otherId = await f.runSandbox(other);
    const fine = await f.runContainer(otherId, other, container('fine', ['sleep', '600']));
    assert.equal((await f.exec(fine, 'echo', 'fine')).stdout, 'fine\n');
    await f.stop(fine, 0);
    assert.equal((await f.status(fine)).exitCode, 137);
    await f.endPod(otherId);
    assert.ok(!exited(await f.status(stuck)), 'all that while it is blocked');

    for (const call of [stop, stopOfPod]) {
      await assert.rejects(call, (error) => {
        assert.match(messageOf(error), words);
        return isKind(error, 'DeadlineExceeded');
      });
    }
    assert.ok(!exited(await f.status(stuck)), 'no exit is made up');

    await share.end();
    const status = await f.waitFor(stuck, exited);
    assert.equal(status.exitCode, 137);
    assert.equal(status.reason, 'Error');
    // The stop of the pod is finished without being asked for again.
    await eventually(
      async () => (await f.cri.podSandboxStatus(op, { podSandboxId: sandboxId, verbose: false })).status?.state,
      (state) => state === PodSandboxState.SANDBOX_NOTREADY,
      'the stop of the pod',
    );
    await eventually(
      () => f.runtime.inspector.pendingWork(op, subject),
      (items) => items.length === 0,
      'the end of all that was pending',
    );
    assert.deepEqual(await readdir(f.root.netnsDir), [], 'what the pod held is released');
    await f.endPod(sandboxId);
    await leaks.assertNone();
  },
);
