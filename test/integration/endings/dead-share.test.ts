import assert from 'node:assert/strict';
import { symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { ContainerState } from '../../../src/cri/gen/api.ts';
import { readMountinfo } from '../../../src/linux/mountinfo.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { SilentFuse } from '../../support/silent-fuse.ts';
import { eventually } from '../runtime/daemon-process.ts';
import { container, op, pod, RuntimeFixture } from '../runtime/runtime-fixture.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
/** More than a process has threads for file calls. */
const HUNG = 20;
let f: RuntimeFixture;
let leaks: LeakCheck;
let share: SilentFuse;

before(async () => {
  if (skip !== false) return;
  f = await RuntimeFixture.make();
  leaks = await LeakCheck.begin(f.root.leakRoots());
  share = await SilentFuse.mount(join(f.root.dir, 'share'));
});

after(async () => {
  if (skip !== false) return;
  // First of all: what waits for it could not be ended else.
  await share.end();
  await f[Symbol.asyncDispose]();
});

test('containers whose mount sources are on a dead share keep no other from starting', { skip }, async () => {
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
