import assert from 'node:assert/strict';
import { readFile, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { CgroupDriver, PodSandboxConfig } from '../../../src/cri/gen/api.ts';
import { isKind } from '../../../src/lib/errors.ts';
import { detectCgroups } from '../../../src/linux/cgroups.ts';
import { execFile } from '../../../src/linux/exec.ts';
import { isSystemdHere } from '../../../src/linux/systemd-units.ts';
import { eventually, Gantryd, op, podOf, SLEEP } from '../../support/gantryd.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { TempRoot } from '../../support/temp-root.ts';

const { mode, unified } = await detectCgroups();
const skip =
  (process.getuid?.() !== 0 && 'needs root') ||
  (!(await isSystemdHere()) && 'systemd does not run this machine') ||
  (mode !== 'v2' && `needs cgroup v2, and this machine has ${mode}`);

const TREE = unified?.mountPoint ?? '';
/** After the request, in ms, at which a daemon is killed. */
const MOMENTS = [0, 300, 900, 2_000];
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

async function systemctl(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await execFile(op, 'systemctl', args);
  assert.equal(code, 0, `systemctl ${args.join(' ')}: ${stderr}`);
  return stdout.trim();
}

async function property(unit: string, name: string): Promise<string> {
  return await systemctl('show', '--value', `--property=${name}`, unit);
}

describe("cgroups that are systemd's", { skip }, () => {
  let daemon: Gantryd;
  let root: TempRoot;
  let leaks: LeakCheck;

  before(async () => {
    root = await TempRoot.make({ cgroupDriver: 'systemd' });
    daemon = await Gantryd.make({ root });
    await daemon.start();
    await daemon.importImage();
    leaks = await LeakCheck.begin(root.leakRoots([{ path: root.logRoot }]));
  });
  afterEach(() => daemon.endPods());
  after(async () => {
    await daemon[Symbol.asyncDispose]();
    await root[Symbol.asyncDispose]();
  });

  /** Path of the cgroup of a pod's container below the mount, as the process itself has it. */
  const cgroupOf = async (pod: string, container = 'main'): Promise<string> => {
    const pid = (await daemon.pids(pod)).get(container) ?? 0;
    return /^0::(.*)$/m.exec(await readFile(`/proc/${String(pid)}/cgroup`, 'utf8'))?.[1] ?? '';
  };
  const file = async (cgroup: string, name: string): Promise<string> =>
    (await readFile(join(TREE, cgroup, name), 'utf8')).trim();
  const idOf = async (pod: string): Promise<string> => {
    const { containers } = await daemon.cri.runtime.listContainers(op, { filter: undefined });
    return containers.find(({ labels }) => labels['io.kubernetes.pod.name'] === pod)?.id ?? '';
  };

  test('daemon, monitors, pods and containers are in units below the slice', async () => {
    const limits = { cpu: '250m', memory: '64Mi' };
    await daemon.apply(podOf('units', [{ resources: { limits } }]), '--wait');
    const id = await idOf('units');
    const uid = (await daemon.pod('units'))?.metadata.uid.replaceAll('-', '_') ?? '';
    const base = basename(root.cgroupParent, '.slice');
    const pod = `${root.cgroupParent}/${base}-pod${uid}.slice`;
    const scope = `gantry-${root.instance}-${id}.scope`;
    assert.equal(await cgroupOf('units'), `${pod}/${base}-pod${uid}-${id}.slice/${scope}`);
    const own = await readFile(`/proc/${String(daemon.pid)}/cgroup`, 'utf8');
    assert.equal(own.trim(), `0::${root.cgroupParent}/${base}-daemon.scope/daemon`);
    assert.equal(await property(scope, 'MemoryMax'), String(64 << 20));
    assert.equal(await property(scope, 'Delegate'), 'yes');
    const cgroup = await cgroupOf('units');
    assert.equal(await file(cgroup, 'memory.max'), String(64 << 20));
    assert.equal(await file(cgroup, 'cpu.max'), '25000 100000');
    const { linux } = await daemon.cri.runtime.runtimeConfig(op, {});
    assert.equal(linux?.cgroupDriver, CgroupDriver.SYSTEMD);
    assert.match(await daemon.gantry('exec', 'units', '--', 'cat', '/proc/self/cgroup'), /\/exec-/);
    await daemon.gantry('delete', 'pod', 'units');
    await leaks.assertNone();
  });

  test('new limits are in the files and in the unit, and systemd does not undo them', async () => {
    await daemon.apply(podOf('update', [{ resources: { limits: { cpu: '250m', memory: '64Mi' } } }]), '--wait');
    const containerId = await idOf('update');
    const cgroup = await cgroupOf('update');
    const scope = basename(cgroup);
    const update = async (linux: object): Promise<void> => {
      const request = { containerId, linux: { hugepageLimits: [], unified: {}, ...NOTHING, ...linux } };
      await daemon.cri.runtime.updateContainerResources(op, { ...request, annotations: {}, windows: undefined });
    };
    await update({ memoryLimitInBytes: 48n << 20n, cpuQuota: 12_345n, cpuPeriod: 100_000n, cpusetCpus: '0' });
    const holds = async (): Promise<void> => {
      assert.equal(await file(cgroup, 'memory.max'), String(48 << 20));
      assert.equal(await file(cgroup, 'cpuset.cpus'), '0');
      // systemd keeps a share in steps of 0.01 %.
      assert.match(await file(cgroup, 'cpu.max'), /^123(45|50) 100000$/);
    };
    await holds();
    assert.equal(await property(scope, 'MemoryMax'), String(48 << 20));
    await systemctl('daemon-reload');
    // Writes all that it knows of the unit.
    await systemctl('set-property', '--runtime', scope, 'TasksMax=500');
    await holds();
    await assert.rejects(update({ memoryLimitInBytes: 4_096n }), (error) => isKind(error, 'FailedPrecondition'));
    await holds();
    assert.equal(await property(scope, 'MemoryMax'), String(48 << 20));
    await daemon.gantry('delete', 'pod', 'update');
    await leaks.assertNone();
  });

  test('out of memory is told, though the scope is gone with its last process', async () => {
    const eat = { script: 'a=0123456789abcdef; while :; do a=$a$a; done', resources: { limits: { memory: '20Mi' } } };
    await daemon.create(podOf('oom', [eat, {}], { restartPolicy: 'Never' }));
    const ended = await daemon.podWhen(
      'oom',
      ({ status }) => status?.containerStatuses?.some(({ state }) => state?.terminated !== undefined) === true,
      'a container that has ended',
    );
    const main = ended.status?.containerStatuses?.find(({ name }) => name === 'main');
    assert.equal(main?.state?.terminated?.reason, 'OOMKilled');
    await daemon.gantry('delete', 'pod', 'oom');
    await leaks.assertNone();
  });

  test('a pod of kubelet: by the name of its slice, with limits of its own where that is ours to make', async () => {
    const slice = `gantry_${root.instance}x-besteffort-pod1.slice`;
    const path = `/gantry_${root.instance}x.slice/gantry_${root.instance}x-besteffort.slice/${slice}`;
    const run = (cgroupParent: string): Promise<{ podSandboxId: string }> => {
      const config = PodSandboxConfig.fromPartial({
        metadata: { name: 'kubelet', namespace: 'default', uid: 'kubelet', attempt: 0 },
        logDirectory: join(root.logRoot, 'kubelet'),
        linux: { cgroupParent, resources: { memoryLimitInBytes: 64n << 20n, cpuShares: 512n } },
      });
      return daemon.cri.runtime.runPodSandbox(op, { config, runtimeHandler: '' });
    };
    for (const parent of ['/kubepods/pod1', 'x.scope', '/elsewhere/a-b.slice']) {
      await assert.rejects(run(parent), (error) => isKind(error, 'InvalidArgument'), parent);
    }
    const { podSandboxId } = await run(slice);
    assert.equal(await file(path, 'memory.max'), String(64 << 20));
    assert.equal(await property(slice, 'MemoryMax'), String(64 << 20));
    await daemon.cri.runtime.updatePodSandboxResources(op, {
      podSandboxId,
      overhead: undefined,
      resources: { ...NOTHING, hugepageLimits: [], unified: {}, memoryLimitInBytes: 32n << 20n },
    });
    await systemctl('daemon-reload');
    assert.equal(await file(path, 'memory.max'), String(32 << 20));
    assert.equal(await property(slice, 'MemoryMax'), String(32 << 20));
    await daemon.cri.runtime.stopPodSandbox(op, { podSandboxId });
    await daemon.cri.runtime.removePodSandbox(op, { podSandboxId });
    await assert.rejects(stat(join(TREE, path)), /ENOENT/);
    // Those above it are kubelet's.
    await systemctl('stop', `gantry_${root.instance}x.slice`);
    await leaks.assertNone();
  });

  test('a daemon that is killed at any moment leaves no unit', async () => {
    for (const [i, moment] of MOMENTS.entries()) {
      const name = `killed${String(i)}`;
      await daemon.create(podOf(name, [{ script: SLEEP }, {}]));
      await pause(moment);
      await daemon.restart('SIGKILL');
      await daemon.ready(name);
      await daemon.delete(name, 1);
      await pause(moment);
      await daemon.restart('SIGKILL');
      await daemon.gone(name);
    }
    await leaks.assertNone();
  });

  test('the doctor finds a unit that is nobody’s, and has it stopped', async () => {
    const scope = `gantry-${root.instance}-${'ab'.repeat(32)}.scope`;
    const sleep = execFile(op, 'systemd-run', ['--scope', '--quiet', `--unit=${scope}`, 'sleep', '1000']);
    await eventually(
      () => property(scope, 'ActiveState'),
      (state) => state === 'active',
      scope,
    );
    assert.match((await daemon.cli(['doctor'])).stdout, new RegExp(scope));
    assert.match(await daemon.gantry('doctor', '--fix'), new RegExp(scope));
    await sleep;
    await eventually(
      () => property(scope, 'ActiveState'),
      (state) => state === 'inactive',
      scope,
    );
    await leaks.assertNone();
  });

  test('the last daemon takes slice and scope with it', async () => {
    await daemon.end('SIGTERM');
    const { code } = await execFile(op, 'systemctl', ['is-active', '--quiet', basename(root.cgroupParent)]);
    assert.notEqual(code, 0);
    await assert.rejects(stat(join(TREE, root.cgroupParent)), /ENOENT/);
    await daemon.start();
  });
});

const NOTHING = {
  cpuPeriod: 0n,
  cpuQuota: 0n,
  cpuShares: 0n,
  memoryLimitInBytes: 0n,
  memorySwapLimitInBytes: 0n,
  oomScoreAdj: 0n,
  cpusetCpus: '',
  cpusetMems: '',
};
