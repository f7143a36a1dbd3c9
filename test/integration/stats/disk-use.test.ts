import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import type { FilesystemUsage } from '../../../src/cri/gen/api.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { container, op, pod, RuntimeFixture } from '../runtime/runtime-fixture.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const MIB = 1024 * 1024;
const KIB = 1024;

async function fsInfo(fixture: RuntimeFixture): Promise<{ images: FilesystemUsage; containers: FilesystemUsage }> {
  const { imageFilesystems, containerFilesystems } = await fixture.runtime.image.imageFsInfo(op, {});
  const [images] = imageFilesystems;
  const [containers] = containerFilesystems;
  assert.ok(images !== undefined && containers !== undefined);
  return { images, containers };
}

const bytesOf = (usage: FilesystemUsage): number => Number(usage.usedBytes?.value);

/** As du counts them. */
async function onDisk(...paths: string[]): Promise<number> {
  const { stdout } = await promisify(execFile)('du', ['-sk', '--total', ...paths]);
  return Number(/^(\d+)\ttotal$/m.exec(stdout)?.[1]) * KIB;
}

test('ImageFsInfo tells what is on the disk', { skip }, async (t) => {
  await using fixture = await RuntimeFixture.make();
  const leaks = await LeakCheck.begin(fixture.root.leakRoots());
  const { data } = fixture.root;
  /** The first answer may come before the trees have been walked. */
  const comesTo = async (which: 'images' | 'containers', ...paths: string[]): Promise<void> => {
    const found = await onDisk(...paths);
    const endMs = performance.now() + 20_000;
    for (;;) {
      const told = bytesOf((await fsInfo(fixture))[which]);
      if (Math.abs(told - found) <= 16 * KIB) return;
      if (performance.now() > endMs) assert.equal(told, found, which);
      await systemClock.sleep(50);
    }
  };

  await t.test('images alone', async () => {
    await comesTo('images', join(data, 'layers'));
    const { images, containers } = await fsInfo(fixture);
    assert.equal(bytesOf(containers), 0);
    assert.equal(images.fsId?.mountpoint, data);
  });

  const config = pod(fixture.root, 'writer');
  const sandboxId = await fixture.runSandbox(config);
  const script = `head -c ${String(4 * MIB)} /dev/zero > /big; touch /tmp/ready; exec sleep 1000`;
  const id = await fixture.runContainer(sandboxId, config, container('writer', ['sh', '-c', script]));
  while ((await fixture.exec(id, 'stat', '/tmp/ready')).exitCode !== 0) await systemClock.sleep(50);

  await t.test('and what containers have written', async () => {
    const upper = join(data, 'snapshots', id, 'upper');
    await comesTo('containers', upper);
    await comesTo('images', join(data, 'layers'), upper);
    const { images, containers } = await fsInfo(fixture);
    assert.ok(Number(containers.inodesUsed?.value) >= 3);
    assert.ok(Number(images.inodesUsed?.value) > Number(containers.inodesUsed?.value));
  });

  await t.test('it is told at once, however often it is asked for', async () => {
    const beginMs = performance.now();
    for (let asked = 0; asked < 50; asked++) await fsInfo(fixture);
    const eachMs = (performance.now() - beginMs) / 50;
    assert.ok(eachMs < 20, `${String(eachMs)} ms each`);
  });

  await fixture.endPod(sandboxId);
  const { containers } = await fsInfo(fixture);
  assert.equal(bytesOf(containers), 0, 'gone with the container');
  await leaks.assertNone();
});
