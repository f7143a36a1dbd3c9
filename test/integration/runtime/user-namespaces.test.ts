import assert from 'node:assert/strict';
import { chmod, mkdir, readdir, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { NamespaceMode, PodSandboxConfig } from '../../../src/cri/gen/api.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { container, op, pod, RuntimeFixture } from './runtime-fixture.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const HOST_ID = 200_000;
const RANGE = { containerId: 0, hostId: HOST_ID, length: 65_536 };
let f: RuntimeFixture;
let leaks: LeakCheck;
let can = false;

before(async () => {
  if (skip !== false) return;
  f = await RuntimeFixture.make();
  // Passed through by those whom root inside is, as /run/gantry can be.
  for (const dir of [f.root.dir, dirname(f.root.dir)]) {
    if (((await stat(dir)).mode & 0o001) === 0) await chmod(dir, 0o711);
  }
  const { runtimeHandlers } = await f.cri.status(op, { verbose: false });
  can = runtimeHandlers.find(({ name }) => name === '')?.features?.userNamespaces === true;
  leaks = await LeakCheck.begin(f.root.leakRoots());
});

after(async () => {
  if (skip !== false) return;
  await f[Symbol.asyncDispose]();
});

function mapped(name: string, pid: NamespaceMode): PodSandboxConfig {
  const config = pod(f.root, name, { network: NamespaceMode.POD, pid });
  const options = config.linux?.securityContext?.namespaceOptions;
  return PodSandboxConfig.fromPartial({
    ...config,
    linux: {
      ...config.linux,
      securityContext: {
        namespaceOptions: { ...options, usernsOptions: { mode: NamespaceMode.POD, uids: [RANGE], gids: [RANGE] } },
      },
    },
  });
}

test('where it cannot be, it is refused in words', { skip }, async (t) => {
  if (can) {
    t.skip('this OCI runtime has user namespaces');
    return;
  }
  await assert.rejects(f.runSandbox(mapped('refused', NamespaceMode.CONTAINER)), (error) => {
    assert.match(String(error), /user namespaces: the OCI runtime does not have them/);
    return true;
  });
  await leaks.assertNone();
});

for (const [name, pid] of [
  ['own', NamespaceMode.CONTAINER],
  ['shared', NamespaceMode.POD],
] as const) {
  test(
    `root inside, nobody outside (${name} PID namespace); its image, its volumes and its files are its own`,
    { skip },
    async (t) => {
      if (!can) {
        t.skip('needs runc 1.2 or crun 1.9, and a kernel that maps layers');
        return;
      }
      const volume = join(f.root.dir, `volume-${name}`);
      await mkdir(volume);
      await writeFile(join(volume, 'theirs'), 'x');
      const config = mapped(name, pid);
      const sandboxId = await f.runSandbox(config);
      const mounts = [{ containerPath: '/volume', hostPath: volume, uidMappings: [RANGE], gidMappings: [RANGE] }];
      const id = await f.runContainer(sandboxId, config, container('main', ['sleep', '1000'], { mounts }));
      const inside = async (...argv: string[]): Promise<string> => {
        const { stdout, stderr, exitCode } = await f.exec(id, ...argv);
        assert.equal(exitCode, 0, stderr);
        return stdout.trim();
      };
      assert.match(await inside('cat', '/proc/self/uid_map'), /^\s*0\s+200000\s+65536$/);
      assert.equal(await inside('id', '-u'), '0');
      for (const path of ['/bin/busybox', '/', '/etc/hosts', '/volume/theirs', '/etc/hostname', '/dev/shm']) {
        const owner = await inside('stat', '-c', '%u', path);
        assert.ok(owner === '0' || (path === '/dev/shm' && owner === '65534'), `${path}: ${owner}`);
      }
      await inside('sh', '-c', 'echo y > /volume/ours; echo z > /file; echo > /dev/shm/x; chown 7:7 /bin/busybox');
      assert.equal((await stat(join(volume, 'ours'))).uid, 0, 'on the disk a volume is as it was');
      assert.equal(await inside('hostname'), name);
      const { info } = await f.cri.containerStatus(op, { containerId: id, verbose: true });
      const { pid: hostPid } = JSON.parse(info['info'] ?? '{}') as { pid: number };
      assert.equal((await stat(`/proc/${String(hostPid)}`)).uid, HOST_ID);

      await f.restart();
      await f.runtime.recovered;
      const second = await f.runContainer(sandboxId, config, container('second', ['sleep', '1000']));
      assert.match((await f.exec(second, 'cat', '/proc/self/uid_map')).stdout, /^\s*0\s+200000\s+65536$/m);
      await f.endPod(sandboxId);
      assert.deepEqual(await readdir(volume), ['ours', 'theirs']);
      await leaks.assertNone();
    },
  );
}
