import assert from 'node:assert/strict';
import { lstat, mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Mount, MountPropagation } from '../../../src/cri/gen/api.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import { Mounts } from '../../../src/linux/mounts.ts';
import { OnePod } from './one-pod.ts';
import { op, type RuntimeFixture } from './runtime-fixture.ts';

const root = process.getuid?.() !== 0 && 'needs root';
const { PROPAGATION_BIDIRECTIONAL, PROPAGATION_HOST_TO_CONTAINER } = MountPropagation;
const mounts = new Mounts({ clock: systemClock });
let scene: OnePod;
let f: RuntimeFixture;

before(async () => {
  if (root !== false) return;
  scene = await OnePod.make('mounts');
  f = scene.fixture;
});

after(async () => {
  if (root === false) await scene[Symbol.asyncDispose]();
});

let made = 0;

async function createWith(asked: readonly Partial<Mount>[]): Promise<string> {
  return await scene.create({ mounts: asked.map((mount) => Mount.fromPartial(mount)) });
}

async function withMounts(asked: readonly Partial<Mount>[], look: (id: string) => Promise<void>): Promise<void> {
  const id = await createWith(asked);
  try {
    await f.cri.startContainer(op, { containerId: id });
    await look(id);
  } finally {
    await f.cri.removeContainer(op, { containerId: id });
  }
}

/** A folder of the host with a memory file system on it, and one in that: both are gone afterwards. */
async function withMountedFolder(
  propagation: 'rprivate' | 'rshared',
  work: (folder: string) => Promise<void>,
): Promise<void> {
  const folder = join(f.root.dir, `mounted-${String(++made)}`);
  const inner = join(folder, 'inner');
  await mkdir(folder);
  await mounts.mount(op, { source: 'outer', target: folder, type: 'tmpfs' });
  try {
    await mkdir(inner);
    await mounts.mount(op, { source: 'inner', target: inner, type: 'tmpfs' });
    // A new mount takes part in what the one around it does, which is shared where systemd is.
    await mounts.bind(op, folder, folder, { recursive: true, propagation });
    await work(folder);
  } finally {
    for (const path of [join(folder, 'late'), inner, folder]) await mounts.unmountAll(op, path, { detach: true });
  }
}

test('paths of the host: links are followed, what is missing is made a folder', { skip: root }, async () => {
  const dir = join(f.root.dir, 'host');
  await mkdir(join(dir, 'real'), { recursive: true });
  await writeFile(join(dir, 'real/file'), 'of the host');
  await symlink('real', join(dir, 'link'));
  await symlink(join(dir, 'link/file'), join(dir, 'file-link'));
  const asked = [
    { containerPath: '/a', hostPath: join(dir, 'link') },
    { containerPath: '/b', hostPath: join(dir, 'file-link'), readonly: true },
    { containerPath: '/c', hostPath: join(dir, 'not/there') },
  ];
  await withMounts(asked, async (id) => {
    assert.equal((await f.exec(id, 'cat', '/a/file', '/b')).stdout, 'of the hostof the host');
    assert.match((await f.exec(id, 'sh', '-c', 'echo x > /b')).stderr, /read-only/i);
    assert.equal((await f.exec(id, 'touch', '/c/file', '/a/new')).exitCode, 0);
  });
  assert.ok((await lstat(join(dir, 'not/there/file'))).isFile());
  assert.ok((await lstat(join(dir, 'real/new'))).isFile());
});

test('read-only holds for what is mounted below only where that is asked for', { skip: root }, async (t) => {
  const { runtimeHandlers } = await f.cri.status(op, { verbose: false });
  if (runtimeHandlers[0]?.features?.recursiveReadOnlyMounts !== true) {
    t.skip('the OCI runtime has no recursive read-only mounts');
    return;
  }
  await withMountedFolder('rprivate', async (hostPath) => {
    const plain = { containerPath: '/plain', hostPath, readonly: true };
    await withMounts([plain, { ...plain, containerPath: '/all', recursiveReadOnly: true }], async (id) => {
      const write = async (path: string): Promise<string> => (await f.exec(id, 'touch', path)).stderr;
      assert.match(await write('/plain/x'), /read-only/i);
      assert.equal(await write('/plain/inner/x'), '');
      assert.match(await write('/all/x'), /read-only/i);
      assert.match(await write('/all/inner/x'), /read-only/i);
    });
  });
});

test('propagation: as asked for, and only from a mount that takes part in it', { skip: root }, async () => {
  await withMountedFolder('rshared', async (hostPath) => {
    const late = join(hostPath, 'late');
    await mkdir(late);
    const asked = [
      { containerPath: '/private', hostPath },
      { containerPath: '/slave', hostPath, propagation: PROPAGATION_HOST_TO_CONTAINER },
      { containerPath: '/shared', hostPath, propagation: PROPAGATION_BIDIRECTIONAL },
    ];
    await withMounts(asked, async (id) => {
      await mounts.mount(op, { source: 'late', target: late, type: 'tmpfs' });
      await writeFile(join(late, 'file'), '');
      const seen = async (folder: string): Promise<string> => (await f.exec(id, 'ls', `/${folder}/late`)).stdout.trim();
      assert.deepEqual([await seen('private'), await seen('slave'), await seen('shared')], ['', 'file', 'file']);
    });
  });
  await withMountedFolder('rprivate', async (hostPath) => {
    const link = join(f.root.dir, 'link-to-private');
    await symlink(hostPath, link);
    for (const propagation of [PROPAGATION_HOST_TO_CONTAINER, PROPAGATION_BIDIRECTIONAL]) {
      for (const source of [link, join(link, 'not', 'there')]) {
        await assert.rejects(
          createWith([{ containerPath: '/c', hostPath: source, propagation }]),
          new RegExp(`${hostPath}, which is not a shared`),
        );
      }
    }
  });
});
