import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { NamespaceMode } from '../../../src/cri/gen/api.ts';
import { readMountinfo } from '../../../src/linux/mountinfo.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { container, op, pod, RuntimeFixture } from './runtime-fixture.ts';

const skip = process.getuid?.() !== 0 && 'needs root';

test('a pod ends although another mount namespace has a copy of all its mounts', { skip }, async () => {
  await using f = await RuntimeFixture.make();
  const config = pod(f.root, 'copied', { network: NamespaceMode.POD });
  await f.endPod(await f.runSandbox(pod(f.root, 'first', { network: NamespaceMode.POD })));
  const leaks = await LeakCheck.begin(f.root.leakRoots());
  const sandboxId = await f.runSandbox(config);
  await f.runContainer(sandboxId, config, container('main', ['sleep', '100000']));
  // As a container of another runtime that was made meanwhile: what is unmounted here stays mounted there.
  const other = spawn('unshare', ['-m', '--propagation', 'private', 'sh', '-c', 'echo copied; read line'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(other, 'exit');
  await once(other.stdout, 'data');
  try {
    const copies = (await readMountinfo(other.pid)).filter(({ mountPoint }) => mountPoint.startsWith(f.root.dir));
    assert.ok(copies.length >= 4, 'net, ipc and uts, shm, and the root file system');
    await f.cri.stopPodSandbox(op, { podSandboxId: sandboxId });
    await f.cri.removePodSandbox(op, { podSandboxId: sandboxId });
    assert.deepEqual(await readdir(f.root.netnsDir), []);
    for (const folder of ['sandboxes', 'containers']) assert.deepEqual(await readdir(join(f.root.state, folder)), []);
    assert.deepEqual(await f.runtime.inspector.pendingWork(op), []);
    // The name, the address and the path of its namespace can be had again while the copy is still there.
    await f.endPod(await f.runSandbox(config));
  } finally {
    other.stdin.end();
    await ended;
  }
  await leaks.assertNone();
});
