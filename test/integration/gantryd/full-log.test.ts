import assert from 'node:assert/strict';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { execFile } from '../../../src/linux/exec.ts';
import { Gantryd, op, podOf } from '../../support/gantryd.ts';
import { TempRoot } from '../../support/temp-root.ts';

const skip = process.getuid?.() !== 0 && 'needs root';

test('a pod whose output found no room in its log: its status, CRI and explain say so', { skip }, async () => {
  await using root = await TempRoot.make();
  const mount = ['-t', 'tmpfs', '-o', 'size=1m', 'test-disk', root.logRoot];
  const { code, stderr } = await execFile(op, 'mount', mount);
  assert.equal(code, 0, stderr);
  await using daemon = await Gantryd.make({ root });
  await daemon.start();
  await daemon.importImage();
  {
    await using file = await open(join(root.logRoot, 'ballast'), 'a');
    await assert.rejects(async () => {
      for (;;) await file.appendFile(Buffer.alloc(4_096));
    }, /ENOSPC/);
  }
  await daemon.create(podOf('full', [{ script: 'echo last; exit 9' }], { restartPolicy: 'Never' }));
  const pod = await daemon.podWhen('full', ({ status }) => status?.phase === 'Failed', 'failed');
  const words = /output may be missing from the log: its file system is full/;
  const terminated = pod.status?.containerStatuses?.[0]?.state?.terminated;
  assert.deepEqual([terminated?.exitCode, terminated?.reason], [9, 'Error']);
  assert.match(terminated?.message ?? '', words);
  const containerId = /[0-9a-f]{64}$/.exec(terminated?.containerID ?? '')?.[0] ?? '';
  const { status } = await daemon.cri.runtime.containerStatus(op, { containerId, verbose: false });
  assert.match(status?.message ?? '', words);
  assert.match(await daemon.gantry('explain', 'pod', 'full'), words);
  await daemon.endPods();
});
