import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, readdir, realpath, rmdir, stat, statfs, writeFile } from 'node:fs/promises';
import os from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { systemClock } from '../../../src/lib/clock.ts';
import { silentLog } from '../../../src/lib/log.ts';
import { hugePagesResource } from '../../../src/kube/huge-pages.ts';
import type { ConfigMap, Secret } from '../../../src/kube/objects.ts';
import { HangSafe } from '../../../src/linux/hang-safe.ts';
import { Mounts } from '../../../src/linux/mounts.ts';
import { readMountinfo } from '../../../src/linux/mountinfo.ts';
import { SafeRemove } from '../../../src/linux/safe-remove.ts';
import { notFound } from '../../../src/lib/errors.ts';
import { readHugePages } from '../../../src/agent/node/host-facts.ts';
import { PodPaths } from '../../../src/agent/pods/paths.ts';
import type { NodePod } from '../../../src/agent/pods/node-pod.ts';
import { testPod } from '../../../src/agent/pods/test-pod.ts';
import { makePodDirectory } from '../../../src/agent/volumes/pod-directory.ts';
import { standardPlugins } from '../../../src/agent/volumes/plugins/standard-plugins.ts';
import type { VolumeNews } from '../../../src/agent/volumes/reconciler.ts';
import { VolumeManager } from '../../../src/agent/volumes/volume-manager.ts';
import { SilentFuse } from '../../support/silent-fuse.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const op = { signal: new AbortController().signal, log: silentLog };
const PATIENCE_MS = 60_000;
/** More than a process has threads for file calls. */
const HUNG = 20;

interface Bench {
  readonly directory: string;
  readonly paths: PodPaths;
  readonly mounts: Mounts;
  readonly remover: SafeRemove;
  readonly wanted: Map<string, NodePod>;
  readonly news: VolumeNews[];
  manager(): Promise<VolumeManager>;
  add(manager: VolumeManager, pod: NodePod): Promise<void>;
  until(what: string, holds: () => boolean | Promise<boolean>): Promise<void>;
}

/** The volume manager over this machine's own mounts, in a folder that takes all its mounts along when it goes. */
async function bench(t: TestContext): Promise<Bench> {
  const directory = await realpath(await mkdtemp(join(os.tmpdir(), 'gantry-volumes-')));
  const paths = new PodPaths(join(directory, 'pods'), join(directory, 'logs'));
  await mkdir(paths.podsDir);
  const hangSafe = new HangSafe({ clock: systemClock });
  const mounts = new Mounts({ clock: systemClock, hangSafe });
  const remover = new SafeRemove({ clock: systemClock });
  const wanted = new Map<string, NodePod>();
  const news: VolumeNews[] = [];
  const managers: VolumeManager[] = [];
  const objects: Record<string, ConfigMap | Secret> = {
    'secrets/key': { data: { token: Buffer.from('s3cret').toString('base64') } } as unknown as Secret,
    'configmaps/settings': { data: { mode: 'fast' } } as unknown as ConfigMap,
  };
  const get = (_op: unknown, resource: string, key: { name: string }): Promise<never> => {
    const found = objects[`${resource}/${key.name}`];
    return found === undefined ? Promise.reject(notFound('not found')) : Promise.resolve(found as never);
  };
  // The clock's timers keep no process alive.
  const alive = setInterval(() => undefined, 1_000);
  t.after(async () => {
    clearInterval(alive);
    for (const manager of managers) manager.stop();
    const below = (await readMountinfo()).filter(({ mountPoint }) => mountPoint.startsWith(`${directory}/`));
    for (const { mountPoint } of below.reverse()) await mounts.unmount(op, mountPoint, { detach: true });
    for (const name of await readdir(directory))
      await remover.remove(op, { root: directory, path: join(directory, name) });
    await rmdir(directory);
    remover.close();
    hangSafe.close();
  });
  return {
    directory,
    paths,
    mounts,
    remover,
    wanted,
    news,
    manager: async () => {
      const memoryBytes = 64 << 20;
      const manager = new VolumeManager({
        plugins: standardPlugins({ paths, clock: systemClock, kube: { get }, remover, hangSafe, memoryBytes, mounts }),
        paths,
        clock: systemClock,
        log: silentLog,
        demands: () => [...wanted.values()].map((pod) => ({ pod, wantsVolumes: true })),
        mayTearDown: () => true,
        onNews: (one) => news.push(one),
        onDirectoryGone: () => undefined,
      });
      managers.push(manager);
      await manager.start();
      return manager;
    },
    add: async (manager, pod) => {
      await makePodDirectory(paths, pod);
      manager.adopt(pod.uid);
      wanted.set(pod.uid, pod);
      manager.poke();
    },
    until: async (what, holds) => {
      const endMs = Date.now() + PATIENCE_MS;
      while (!(await holds())) {
        assert.ok(Date.now() < endMs, `not within a minute: ${what}\n${JSON.stringify(news.slice(-3))}`);
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    },
  };
}

function podWith(volumes: NodePod['spec']['volumes'], uid = '00000000-0000-4000-8000-00000000000a'): NodePod {
  return testPod({ volumes }, { uid });
}

await test('every kind of volume, its modes and sizes, and nothing left of them', { skip }, async (t) => {
  const b = await bench(t);
  const manager = await b.manager();
  const pod = podWith([
    { name: 'disk', emptyDir: {} },
    { name: 'memory', emptyDir: { medium: 'Memory', sizeLimit: '8Mi' } },
    { name: 'unbounded', emptyDir: { medium: 'Memory' } },
    { name: 'conf', configMap: { name: 'settings', defaultMode: 0o440 } },
    { name: 'key', secret: { secretName: 'key', items: [{ key: 'token', path: 'a/token', mode: 0o400 }] } },
    { name: 'host', hostPath: { path: join(b.directory, 'made'), type: 'DirectoryOrCreate' } },
  ]);
  await b.add(manager, pod);
  await b.until('ready', () => manager.ofPod(pod).ready);
  const at = (name: string): string => manager.ofPod(pod).paths.get(name) ?? '';
  assert.equal(at('disk'), join(b.paths.pod(pod.uid), 'volumes/kubernetes.io~empty-dir/disk'));
  assert.deepEqual(
    await Promise.all(['disk', 'memory'].map(async (name) => (await stat(at(name))).mode & 0o777)),
    [0o777, 0o777],
  );
  const bytes = async (name: string): Promise<number> => {
    const { blocks, bsize } = await statfs(at(name));
    return blocks * bsize;
  };
  assert.deepEqual([await bytes('memory'), await bytes('unbounded')], [8 << 20, 64 << 20]);
  assert.equal(await readFile(join(at('conf'), 'mode'), 'utf8'), 'fast');
  assert.equal((await stat(join(at('conf'), 'mode'))).mode & 0o777, 0o440);
  assert.equal(await readFile(join(at('key'), 'a/token'), 'utf8'), 's3cret');
  const onSecret = (await readMountinfo()).find(({ mountPoint }) => mountPoint === at('key'));
  assert.equal(onSecret?.fsType, 'tmpfs');
  await writeFile(join(at('host'), 'mine'), 'stays');

  b.wanted.clear();
  manager.poke();
  await b.until('gone', async () => (await readdir(b.paths.podsDir)).length === 0);
  assert.equal(await readFile(join(b.directory, 'made', 'mine'), 'utf8'), 'stays');
  assert.deepEqual(
    (await readMountinfo()).filter(({ mountPoint }) => mountPoint.startsWith(b.directory)),
    [],
  );
});

await test(
  'what is mounted inside an emptyDir survives its deletion, which ends when the mounts are gone',
  { skip },
  async (t) => {
    const b = await bench(t);
    let manager = await b.manager();
    const pod = podWith([
      { name: 'disk', emptyDir: {} },
      { name: 'memory', emptyDir: { medium: 'Memory' } },
      { name: 'free', emptyDir: {} },
    ]);
    await b.add(manager, pod);
    await b.until('ready', () => manager.ofPod(pod).ready);
    const [disk = '', memory = ''] = ['disk', 'memory'].map((name) => manager.ofPod(pod).paths.get(name));
    const share = join(b.directory, 'share');
    const other = join(b.directory, 'other');
    const inMemory = join(b.directory, 'in-memory');
    for (const folder of [share, other, inMemory]) await mkdir(folder);
    await b.mounts.mount(op, { source: 'other', target: other, type: 'tmpfs' });
    const targets = {
      same: join(disk, 'same'),
      other: join(disk, 'other'),
      tmp: join(disk, 'tmp'),
      deep: join(memory, 'x'),
    };
    for (const folder of Object.values(targets)) await mkdir(folder);
    for (const folder of [share, other, inMemory]) await writeFile(join(folder, 'precious'), folder);
    await b.mounts.bind(op, share, targets.same);
    await b.mounts.bind(op, other, targets.other);
    await b.mounts.mount(op, { source: 'scratch', target: targets.tmp, type: 'tmpfs' });
    await writeFile(join(targets.tmp, 'precious'), 'tmp');
    await b.mounts.bind(op, inMemory, targets.deep);
    await writeFile(join(disk, 'beside'), 'the pod’s own');

    b.wanted.clear();
    manager.poke();
    await b.until('blocked', () => manager.teardownOf(pod.uid).kind === 'blocked');
    const names = manager.blocked().map(({ name }) => name);
    assert.deepEqual(names.sort(), ['disk', 'memory']);
    const said = manager
      .blocked()
      .flatMap(({ blockers }) => blockers.map(({ path }) => path))
      .sort();
    assert.deepEqual(said, Object.values(targets).sort());
    for (const folder of [share, other, inMemory])
      assert.equal(await readFile(join(folder, 'precious'), 'utf8'), folder);
    assert.equal(await readFile(join(targets.tmp, 'precious'), 'utf8'), 'tmp');

    // A new agent process finds them by their directories alone.
    manager.stop();
    manager = await b.manager();
    await b.until('blocked again', () => manager.teardownOf(pod.uid).kind === 'blocked');
    for (const target of Object.values(targets)) await b.mounts.unmount(op, target);
    await b.until('gone', async () => (await readdir(b.paths.podsDir)).length === 0);
    for (const folder of [share, other, inMemory])
      assert.equal(await readFile(join(folder, 'precious'), 'utf8'), folder);
  },
);

await test('somebody’s mount on the volume directory itself is not taken for ours', { skip }, async (t) => {
  const b = await bench(t);
  const manager = await b.manager();
  const pod = podWith([{ name: 'disk', emptyDir: {} }]);
  await b.add(manager, pod);
  await b.until('ready', () => manager.ofPod(pod).ready);
  const disk = manager.ofPod(pod).paths.get('disk') ?? '';
  await b.mounts.mount(op, { source: 'foreign', target: disk, type: 'tmpfs' });
  await writeFile(join(disk, 'precious'), 'theirs');
  b.wanted.clear();
  manager.poke();
  await b.until('blocked', () => manager.teardownOf(pod.uid).kind === 'blocked');
  assert.equal(await readFile(join(disk, 'precious'), 'utf8'), 'theirs');
  await b.mounts.unmount(op, disk);
  await b.until('gone', async () => (await readdir(b.paths.podsDir)).length === 0);
});

await test('a restarted agent keeps what a memory volume holds', { skip }, async (t) => {
  const b = await bench(t);
  let manager = await b.manager();
  const pod = podWith([{ name: 'memory', emptyDir: { medium: 'Memory' } }]);
  await b.add(manager, pod);
  await b.until('ready', () => manager.ofPod(pod).ready);
  const memory = manager.ofPod(pod).paths.get('memory') ?? '';
  await writeFile(join(memory, 'state'), '1');
  manager.stop();
  manager = await b.manager();
  await b.until('ready again', () => manager.ofPod(pod).ready);
  assert.equal(await readFile(join(memory, 'state'), 'utf8'), '1');
  assert.equal((await readMountinfo()).filter(({ mountPoint }) => mountPoint === memory).length, 1);
});

await test('a hostPath of the wrong kind is refused and says why', { skip }, async (t) => {
  const b = await bench(t);
  const manager = await b.manager();
  await writeFile(join(b.directory, 'file'), '');
  const pod = podWith([{ name: 'host', hostPath: { path: join(b.directory, 'file'), type: 'Directory' } }]);
  await b.add(manager, pod);
  await b.until('refused', () => manager.ofPod(pod).waitingFor.some((text) => text.includes('is not a directory')));
});

await test(
  'what hangs while it is made on a dead share keeps no other volume from being set up',
  { skip },
  async (t) => {
    const b = await bench(t);
    const manager = await b.manager();
    await using share = await SilentFuse.mount(join(b.directory, 'share'));
    const hung = podWith(
      Array.from({ length: HUNG }, (_none, i) => ({
        name: `v${i}`,
        hostPath: { path: share.missing(i), type: i % 2 === 0 ? 'DirectoryOrCreate' : 'FileOrCreate' },
      })),
    );
    await b.add(manager, hung);
    // Where they hang in this process's threads, there is none left for what follows: it would wait for ever.
    const state = { freed: false };
    const enough = setTimeout(() => {
      state.freed = true;
      void share.end();
    }, PATIENCE_MS);
    t.after(() => clearTimeout(enough));
    for (let i = 0; i < HUNG && !state.freed; i++) await share.opened().catch(() => undefined);

    const other = podWith(
      [
        { name: 'disk', emptyDir: {} },
        { name: 'conf', configMap: { name: 'settings' } },
        { name: 'host', hostPath: { path: join(b.directory, 'here/below'), type: 'DirectoryOrCreate' } },
      ],
      '00000000-0000-4000-8000-00000000000b',
    );
    await b.add(manager, other);
    await b.until('the other pod is ready', () => manager.ofPod(other).ready);
    assert.equal(await readFile(join(manager.ofPod(other).paths.get('conf') ?? '', 'mode'), 'utf8'), 'fast');
    assert.equal(manager.ofPod(hung).ready, false);
    assert.ok(!state.freed, 'all that while the share is dead');

    b.wanted.clear();
    manager.poke();
    await share.end();
    await b.until('gone', async () => (await readdir(b.paths.podsDir)).length === 0);
  },
);

await test(
  'a volume of huge pages is mounted once, is known to the next agent, and goes with its pod',
  { skip },
  async (t) => {
    const b = await bench(t);
    const [size] = await readHugePages().then((found) => [...found.keys()]);
    if (size === undefined) {
      t.skip('this kernel has no huge pages');
      return;
    }
    const limits = { memory: '64Mi', [hugePagesResource(size)]: String(size) };
    const pod = testPod({
      containers: [{ name: 'main', image: 'i', resources: { limits } }],
      volumes: [{ name: 'huge', emptyDir: { medium: 'HugePages' } }],
    });
    const path = b.paths.volume(pod.uid, 'kubernetes.io/empty-dir', 'huge');
    const onIt = async (): Promise<string[]> =>
      (await readMountinfo())
        .filter(({ mountPoint }) => mountPoint === path)
        .map(({ fsType, source }) => `${fsType} ${source}`);
    const first = await b.manager();
    await b.add(first, pod);
    await b.until('ready', () => first.ofPod(pod).ready);
    assert.deepEqual(await onIt(), ['hugetlbfs gantry-volume']);
    assert.equal((await stat(path)).mode & 0o777, 0o777);
    assert.equal((await statfs(path)).bsize, size);
    await mkdir(join(path, 'of-the-pod'));
    first.stop();
    const second = await b.manager();
    await b.until('ready again', () => second.ofPod(pod).ready);
    assert.deepEqual(await onIt(), ['hugetlbfs gantry-volume']);
    assert.deepEqual(await readdir(path), ['of-the-pod']);
    b.wanted.clear();
    second.poke();
    await b.until('gone', () => second.teardownOf(pod.uid).kind === 'gone');
    assert.deepEqual(await readdir(b.paths.podsDir), []);
  },
);
