import assert from 'node:assert/strict';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { ContainerState, Mount, type ContainerConfig, type PodSandboxConfig } from '../../../src/cri/gen/api.ts';
import { isKind, messageOf } from '../../../src/lib/errors.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { container, IMAGE, op, pod, RuntimeFixture } from './runtime-fixture.ts';

const root = process.getuid?.() !== 0 && 'needs root';
const DATA = 'localhost/data:1';
let f: RuntimeFixture;
let leaks: LeakCheck;
let config: PodSandboxConfig;
let sandboxId: string;

before(async () => {
  if (root !== false) return;
  f = await RuntimeFixture.make();
  const rootfs = join(f.root.dir, 'data');
  await mkdir(join(rootfs, 'deep/er'), { recursive: true });
  await writeFile(join(rootfs, 'deep/er/file'), 'of the image');
  await writeFile(join(rootfs, 'hostname'), 'of the image, too');
  await symlink('/deep', join(rootfs, 'absolute'));
  await symlink('../../../../../../../../etc', join(rootfs, 'climbing'));
  await mkdir(join(rootfs, 'etc'));
  await symlink('/proc/1/root', join(rootfs, 'out'));
  await f.runtime.images.import(op, { kind: 'rootfs', path: rootfs, name: DATA });
  leaks = await LeakCheck.begin(f.root.leakRoots());
  config = pod(f.root, 'volumes');
  sandboxId = await f.runSandbox(config);
});

after(async () => {
  if (root !== false) return;
  await f[Symbol.asyncDispose]();
});

function volume(containerPath: string, imageSubPath = '', more: Parameters<typeof Mount.fromPartial>[0] = {}): Mount {
  return Mount.fromPartial({ containerPath, readonly: true, image: { image: DATA }, imageSubPath, ...more });
}

let made = 0;
const withMounts = (...mounts: Mount[]): ContainerConfig =>
  container(`c${String(++made)}`, ['sleep', '600'], { mounts });

test(
  'an image is a read-only folder, whole or in part, in as many places as are asked for',
  { skip: root },
  async () => {
    const mounts = [
      volume('/all'),
      volume('/mnt/part', 'deep/er'),
      volume('/file', 'hostname'),
      volume('/link', 'absolute'),
    ];
    const id = await f.runContainer(sandboxId, config, withMounts(...mounts));
    for (const path of ['/all/deep/er/file', '/mnt/part/file', '/link/er/file']) {
      assert.equal((await f.exec(id, 'cat', path)).stdout, 'of the image', path);
    }
    assert.equal((await f.exec(id, 'cat', '/file')).stdout, 'of the image, too');
    for (const path of ['/all/new', '/mnt/part/new', '/file', '/all/deep/er/file']) {
      assert.match((await f.exec(id, 'sh', '-c', `echo x >> ${path}`)).stderr, /read-only/i, path);
    }
    const { mounts: shown, imageId } = await f.status(id);
    const refs = new Set(shown.map(({ image }) => image?.imageRef));
    assert.equal(refs.size, 1);
    assert.match([...refs][0] ?? '', /^sha256:[0-9a-f]{64}$/);
    assert.ok(!refs.has(imageId), 'the id of the volume, not of the container’s own image');
    assert.deepEqual(
      shown.map(({ containerPath, image }) => [containerPath, image?.image]),
      mounts.map(({ containerPath }) => [containerPath, DATA]),
    );
    await f.cri.removeContainer(op, { containerId: id });
  },
);

test('no path in an image leads out of it', { skip: root }, async () => {
  await writeFile(join(f.root.dir, 'secret'), 'of the host');
  const id = await f.runContainer(
    sandboxId,
    config,
    withMounts(volume('/climbed', 'climbing'), volume('/top', '../..')),
  );
  assert.equal((await f.exec(id, 'ls', '/climbed')).stdout, '', 'the image’s own /etc, which is empty');
  assert.equal((await f.exec(id, 'cat', '/top/hostname')).stdout, 'of the image, too');
  await f.cri.removeContainer(op, { containerId: id });
  for (const path of ['out', 'out/etc', 'out/etc/passwd']) {
    await assert.rejects(f.createContainer(sandboxId, config, withMounts(volume('/v', path))), (error) => {
      return isKind(error, 'InvalidArgument') && messageOf(error).startsWith('ImageVolumeMountFailed: ');
    });
  }
});

test('what cannot be is said when the container is created, and leaves nothing', { skip: root }, async () => {
  const wrong: readonly (readonly [Mount, RegExp])[] = [
    [volume('/v', 'none'), /ImageVolumeMountFailed: mount \/v: image localhost\/data:1 has no none$/],
    [volume('/v', 'hostname/x'), /ImageVolumeMountFailed: /],
    [volume('/v', '', { readonly: false }), /can only be mounted readonly/],
    [volume('/v', '', { hostPath: '/etc' }), /host_path and an image/],
    [volume('/v', '', { image: { image: 'localhost/none:1' } }), /ImageVolumeMountFailed: .*pull it first/],
    [volume('/v', '', { image: { image: '' } }), /no name/],
  ];
  for (const [mount, words] of wrong) {
    await assert.rejects(f.createContainer(sandboxId, config, withMounts(volume('/fine'), mount)), words);
  }
  const { containers } = await f.cri.listContainers(op, { filter: undefined });
  assert.deepEqual(containers, []);
  assert.doesNotMatch(await readFile('/proc/self/mountinfo', 'utf8'), new RegExp(`${f.root.state}/containers`));
});

test('an image stays as long as a container has it as a volume, through restarts, too', { skip: root }, async () => {
  const created = await f.createContainer(sandboxId, config, withMounts(volume('/v')));
  const running = await f.runContainer(sandboxId, config, withMounts(volume('/v', 'deep')));
  const removal = (): Promise<unknown> => f.runtime.images.remove(op, DATA);
  await assert.rejects(removal(), /in use by container/);
  await f.restart();
  await f.runtime.recovered;
  await assert.rejects(removal(), /in use by container/);
  assert.equal((await f.exec(running, 'cat', '/v/er/file')).stdout, 'of the image');
  await f.cri.startContainer(op, { containerId: created });
  assert.equal((await f.exec(created, 'cat', '/v/hostname')).stdout, 'of the image, too');
  await f.stop(running, 0);
  await f.waitFor(running, ({ state }) => state === ContainerState.CONTAINER_EXITED);
  for (const containerId of [created, running]) await f.cri.removeContainer(op, { containerId });
  await f.endPod(sandboxId);
  await leaks.assertNone();
  await removal();
  assert.equal(
    f.runtime.images.list().some(({ repoTags }) => repoTags.includes(DATA)),
    false,
  );
  assert.ok(f.runtime.images.list().some(({ repoTags }) => repoTags.includes(IMAGE)));
});
