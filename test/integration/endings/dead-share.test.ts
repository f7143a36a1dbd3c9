import assert from 'node:assert/strict';
import { symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { ContainerState } from '../../../src/cri/gen/api.ts';
import { readMountinfo } from '../../../src/linux/mountinfo.ts';
import { eventually } from '../runtime/daemon-process.ts';
import { container, op, pod } from '../runtime/runtime-fixture.ts';
import { silentShareBench } from './silent-share.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
/** More than a process has threads for file calls. */
const HUNG = 20;
const benchOf = silentShareBench(skip);

test('containers whose mount sources are on a dead share keep no other from starting', { skip }, async () => {
  const { f, leaks, share } = benchOf();
  const link = join(f.root.dir, 'link');
  await symlink(share.dir, link);
  const config = pod(f.root, 'dead');
  const sandboxId = await f.runSandbox(config);
  const ids = await Promise.all(
    Array.from({ length: HUNG }, (_none, i) => {
      // Where a path leads is not always to be seen in it.
      const hostPath = i % 2 === 0 ? share.lost(i) : share.lost(i).replace(share.dir, link);
      const mounts = [{ containerPath: '/share', hostPath }];
      return f.createContainer(sandboxId, config, container(`c${i}`, ['sleep', '600'], { mounts }));
    }),
  );
  const starts = ids.map((containerId) => f.cri.startContainer(op, { containerId }));
  for (const start of starts) start.catch(() => undefined);
  await share.opened();
  await eventually(
    async () => (await readMountinfo()).filter(({ mountPoint }) => ids.some((id) => mountPoint.includes(id))).length,
    (mounted) => mounted === HUNG,
    'the root file systems, after which the sources are looked at',
  );

  const other = pod(f.root, 'other');
  const otherId = await f.runSandbox(other);
  for (const name of ['one', 'two', 'three']) {
    const mounts = [{ containerPath: '/data', hostPath: join(f.root.dir, 'data', name) }];
    const fine = await f.runContainer(otherId, other, container(name, ['sleep', '600'], { mounts }));
    assert.equal((await f.status(fine)).state, ContainerState.CONTAINER_RUNNING);
    assert.equal((await f.exec(fine, 'echo', 'fine')).stdout, 'fine\n');
  }
  for (const id of ids) assert.equal((await f.status(id)).state, ContainerState.CONTAINER_CREATED);
  await f.endPod(otherId);

  await share.end();
  for (const start of starts) await assert.rejects(start);
  await f.endPod(sandboxId);
  await leaks.assertNone();
});
