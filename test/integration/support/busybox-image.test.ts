import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { execFile } from '../../../src/lib/exec.ts';
import { silentLog } from '../../../src/lib/log.ts';
import { busyboxRootfs } from '../../support/busybox.ts';
import { digestOf, imageOf, layerOf, layerOfTar } from '../../support/images.ts';
import { tarOf } from '../../support/tar.ts';

const op = { signal: new AbortController().signal, log: silentLog };
const root = { skip: process.getuid?.() !== 0 && 'needs root' };

test("the image made of this machine's busybox runs a shell with its applets", root, async () => {
  const tar = await tarOf(await busyboxRootfs());
  const dir = await mkdtemp(join(tmpdir(), 'gantry-busybox-'));
  try {
    await mkdir(join(dir, 'rootfs'));
    await writeFile(join(dir, 'layer.tar'), tar);
    assert.equal((await execFile(op, 'tar', ['-xf', join(dir, 'layer.tar'), '-C', join(dir, 'rootfs')])).code, 0);
    const script = 'id -u; echo $(seq 3) | wc -w; stat -c %a /tmp';
    const ran = await execFile(op, '/usr/sbin/chroot', [join(dir, 'rootfs'), '/bin/sh', '-c', script], {
      env: { PATH: '/bin' },
    });
    assert.deepEqual(ran, { code: 0, signal: null, stdout: '0\n3\n1777\n', stderr: '' });
  } finally {
    await rm(dir, { recursive: true });
  }
});

test('the same members give the same digests, whatever the compression', async () => {
  const members = [{ name: 'a', content: 'x' }];
  const layers = await Promise.all((['none', 'gzip', 'zstd'] as const).map((form) => layerOf(members, form)));
  assert.equal(new Set(layers.map(({ diffId }) => diffId)).size, 1);
  assert.equal(new Set(layers.map(({ blob }) => blob.digest)).size, 3);
  const image = imageOf([layerOfTar(await tarOf(members))]);
  assert.equal(image.id, digestOf(image.config.data));
});
