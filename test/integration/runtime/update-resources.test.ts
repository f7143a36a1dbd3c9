import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { LinuxContainerResources, UpdateContainerResourcesRequest } from '../../../src/cri/gen/api.ts';
import { kindOf, messageOf } from '../../../src/lib/errors.ts';
import { Cgroups, detectCgroups } from '../../../src/linux/cgroups.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import { cgroupFile, cpuTime, memoryLimit, setCgroupFile } from '../../support/cgroup-file.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { container, op, pod, RuntimeFixture } from './runtime-fixture.ts';

const root = process.getuid?.() !== 0 && 'needs root';
const MIB = 1 << 20;
/** Fills memory that no reclaiming can free, and says so. */
const HOLD_48_MIB = 'mkdir -p /dev/shm/x; dd if=/dev/zero of=/dev/shm/x/f bs=1M count=48; touch /tmp/ready; sleep 1000';
let f: RuntimeFixture;
let leaks: LeakCheck;
let failApply = false;

before(async () => {
  if (root !== false) return;
  f = await RuntimeFixture.make(() => ({
    faults: {
      reach: (point) =>
        failApply && point === 'update-resources/applied' ? Promise.reject(new Error('planned failure')) : undefined,
      pass: () => undefined,
    },
  }));
  leaks = await LeakCheck.begin(f.root.leakRoots());
});

after(async () => {
  if (root !== false) return;
  await f[Symbol.asyncDispose]();
});

type Resources = Parameters<typeof LinuxContainerResources.fromPartial>[0];

async function update(containerId: string, linux: Resources): Promise<void> {
  const request = UpdateContainerResourcesRequest.fromPartial({ containerId, linux });
  await f.cri.updateContainerResources?.(op, request);
}

async function updatePod(podSandboxId: string, resources: Resources, overhead: Resources = {}): Promise<void> {
  await f.cri.updatePodSandboxResources?.(op, {
    podSandboxId,
    resources: LinuxContainerResources.fromPartial(resources),
    overhead: LinuxContainerResources.fromPartial(overhead),
  });
}

async function cgroupOf(containerId: string): Promise<string> {
  const { info } = await f.cri.containerStatus(op, { containerId, verbose: true });
  return (JSON.parse(info['info'] ?? '{}') as { facts: { cgroupPath: string } }).facts.cgroupPath;
}

const limited = { linux: { resources: { memoryLimitInBytes: BigInt(64 * MIB), cpuShares: 512n } } };

test(
  'a container that runs: the cgroup, the status and the next daemon have it; what is not said stays',
  { skip: root },
  async () => {
    const config = pod(f.root, 'runs');
    const sandboxId = await f.runSandbox(config);
    const id = await f.runContainer(sandboxId, config, container('main', ['sleep', '1000'], limited));
    const path = await cgroupOf(id);
    await update(id, { memoryLimitInBytes: BigInt(96 * MIB), cpuQuota: 30_000n, cpuPeriod: 60_000n });
    await update(id, { cpusetCpus: '0' });
    await f.exec(id, 'true');
    const look = async (): Promise<void> => {
      assert.equal(await memoryLimit(path), 96 * MIB);
      assert.deepEqual(await cpuTime(path), [30_000, 60_000]);
      assert.equal(await cgroupFile(path, 'cpuset', 'cpuset.cpus', 'cpuset.cpus'), '0');
      const linux = (await f.status(id)).resources?.linux;
      assert.deepEqual(
        [linux?.memoryLimitInBytes, linux?.cpuQuota, linux?.cpuPeriod, linux?.cpuShares, linux?.cpusetCpus],
        [BigInt(96 * MIB), 30_000n, 60_000n, 512n, '0'],
      );
    };
    await look();
    await f.restart();
    await f.runtime.recovered;
    await look();
    await update(id, { cpuQuota: 90_000n, cpuPeriod: 100_000n });
    assert.deepEqual(await cpuTime(path), [90_000, 100_000]);
    await update(id, { cpuQuota: -1n });
    assert.equal((await cpuTime(path))[0], -1);
    await f.stop(id, 0);
    await assert.rejects(update(id, { cpuShares: 7n }), { kind: 'FailedPrecondition' });
    await f.endPod(sandboxId);
    await assert.rejects(update(id, { cpuShares: 7n }), { kind: 'NotFound' });
    await leaks.assertNone();
  },
);

test('a CREATED one starts with what it was updated to', { skip: root }, async () => {
  const config = pod(f.root, 'created');
  const sandboxId = await f.runSandbox(config);
  const id = await f.createContainer(sandboxId, config, container('main', ['sleep', '1000'], limited));
  await update(id, { memoryLimitInBytes: BigInt(80 * MIB), cpuShares: 2048n });
  assert.equal((await f.status(id)).resources?.linux?.memoryLimitInBytes, BigInt(80 * MIB));
  await f.restart();
  await f.runtime.recovered;
  await f.cri.startContainer(op, { containerId: id });
  assert.equal(await memoryLimit(await cgroupOf(id)), 80 * MIB);
  await f.endPod(sandboxId);
  await leaks.assertNone();
});

test('less memory than is in use is refused in words, and nothing of the request is left', { skip: root }, async () => {
  const config = pod(f.root, 'in-use');
  const sandboxId = await f.runSandbox(config);
  const command = ['sh', '-c', HOLD_48_MIB];
  const id = await f.runContainer(sandboxId, config, container('main', command, limited));
  while ((await f.exec(id, 'stat', '/tmp/ready')).exitCode !== 0);
  const path = await cgroupOf(id);
  const [shares, time] = [await cgroupFile(path, 'cpu', 'cpu.shares', 'cpu.weight'), await cpuTime(path)];
  const asked = { memoryLimitInBytes: BigInt(16 * MIB), cpuShares: 2048n, cpuQuota: 10_000n, cpuPeriod: 50_000n };
  await assert.rejects(update(id, asked), (error) => {
    assert.equal(kindOf(error), 'FailedPrecondition');
    assert.match(messageOf(error), /memory limit of 16777216 bytes: \d+ are in use/);
    return true;
  });
  assert.equal(await memoryLimit(path), 64 * MIB);
  assert.equal(await cgroupFile(path, 'cpu', 'cpu.shares', 'cpu.weight'), shares);
  assert.deepEqual(await cpuTime(path), time);
  const { status, info } = await f.cri.containerStatus(op, { containerId: id, verbose: true });
  assert.equal(status?.resources?.linux?.memoryLimitInBytes, BigInt(64 * MIB));
  assert.equal(status.exitCode, 0);
  assert.doesNotMatch(info['info'] ?? '', /limitsIntent/);
  await f.endPod(sandboxId);
  await leaks.assertNone();
});

test('CPUs are narrowed and widened also while something is executed below it', { skip: root }, async () => {
  const config = pod(f.root, 'cpus');
  const sandboxId = await f.runSandbox(config);
  const id = await f.runContainer(sandboxId, config, container('main', ['sleep', '1000']));
  const executed = f.exec(id, 'sh', '-c', 'touch /tmp/in; while [ ! -e /tmp/out ]; do sleep 0.05; done');
  while ((await f.exec(id, 'stat', '/tmp/in')).exitCode !== 0);
  const cpus = async (): Promise<string> => cgroupFile(await cgroupOf(id), 'cpuset', 'cpuset.cpus', 'cpuset.cpus');
  await update(id, { cpusetCpus: '0' });
  assert.equal(await cpus(), '0');
  await update(id, { cpusetCpus: '0-1' });
  assert.equal(await cpus(), '0-1');
  await assert.rejects(update(id, { cpusetCpus: '0-4095' }), /cpuset_cpus: this host has no \S+-4095/);
  assert.equal(await cpus(), '0-1');
  assert.equal((await f.status(id)).resources?.linux?.cpusetCpus, '0-1');
  await f.exec(id, 'touch', '/tmp/out');
  await executed;
  await f.endPod(sandboxId);
  await leaks.assertNone();
});

test(
  'an update that the kernel refuses is forgotten: the next one holds, also after a restart',
  { skip: root !== false ? root : (await detectCgroups()).mode === 'v2' && 'v2 takes CPUs that the parent lacks' },
  async () => {
    const config = pod(f.root, 'refused');
    const sandboxId = await f.runSandbox(config);
    const id = await f.runContainer(sandboxId, config, container('main', ['sleep', '1000'], limited));
    const path = await cgroupOf(id);
    await update(id, { cpusetCpus: '0' });
    await setCgroupFile(dirname(path), 'cpuset', 'cpuset.cpus', '0');
    await assert.rejects(update(id, { cpusetCpus: '1' }), /cpuset\.cpus/);
    const { info } = await f.cri.containerStatus(op, { containerId: id, verbose: true });
    assert.doesNotMatch(info['info'] ?? '', /limitsIntent/);
    await update(id, { memoryLimitInBytes: BigInt(60 * MIB) });
    assert.equal(await memoryLimit(path), 60 * MIB);
    await f.restart();
    await f.runtime.recovered;
    await update(id, { cpusetCpus: '0', memoryLimitInBytes: BigInt(61 * MIB) });
    assert.equal(await memoryLimit(path), 61 * MIB);
    assert.equal((await f.status(id)).resources?.linux?.cpusetCpus, '0');
    await f.endPod(sandboxId);
    await leaks.assertNone();
  },
);

test('a step that fails after the cgroup was written takes it back', { skip: root }, async () => {
  const config = pod(f.root, 'fails');
  const sandboxId = await f.runSandbox(config);
  const id = await f.runContainer(sandboxId, config, container('main', ['sleep', '1000'], limited));
  failApply = true;
  await assert.rejects(update(id, { memoryLimitInBytes: BigInt(99 * MIB) }), /planned failure/);
  failApply = false;
  assert.equal(await memoryLimit(await cgroupOf(id)), 64 * MIB);
  assert.equal((await f.status(id)).resources?.linux?.memoryLimitInBytes, BigInt(64 * MIB));
  await f.endPod(sandboxId);
  await leaks.assertNone();
});

test('what this host cannot is refused by name', { skip: root }, async () => {
  const config = pod(f.root, 'cannot');
  const sandboxId = await f.runSandbox(config);
  const id = await f.createContainer(sandboxId, config, container('main', ['sleep', '1000']));
  const { mode } = await detectCgroups();
  if (mode !== 'v2') await assert.rejects(update(id, { unified: { 'memory.high': '1' } }), /unified needs cgroup v2/);
  await f.endPod(sandboxId);
  await leaks.assertNone();
});

test(
  'oom_score_adj: of all its processes that have what it was given and of those executed later, not of one that has chosen for itself',
  { skip: root },
  async () => {
    const config = pod(f.root, 'oom-score');
    const sandboxId = await f.runSandbox(config);
    const script =
      'sleep 1000 & sh -c "echo 700 > /proc/self/oom_score_adj; touch /tmp/ready; while :; do sleep 1000; done" & wait';
    const linux = { resources: { oomScoreAdj: 500n } };
    const id = await f.runContainer(sandboxId, config, container('main', ['sh', '-c', script], { linux }));
    while ((await f.exec(id, 'stat', '/tmp/ready')).exitCode !== 0);
    const cgroups = new Cgroups({ clock: systemClock, host: await detectCgroups() });
    const path = await cgroupOf(id);
    const scores = async (): Promise<string[]> => {
      const read = (await cgroups.procs(path)).map((pid) => readFile(`/proc/${String(pid)}/oom_score_adj`, 'utf8'));
      return [...new Set((await Promise.all(read)).map((score) => score.trim()))].sort();
    };
    assert.deepEqual(await scores(), ['500', '700']);
    // A moment after its start, where the OCI runtime does not take it from the process's specification.
    const waits =
      'n=0; until [ $n = 50 ] || grep -q "^$0$" /proc/self/oom_score_adj; do n=$((n + 1)); sleep 0.1; done; cat /proc/self/oom_score_adj';
    const ofExec = async (wanted: string) => (await f.exec(id, 'sh', '-c', waits, wanted)).stdout.trim();
    assert.equal(await ofExec('500'), '500');
    await update(id, { oomScoreAdj: 600n });
    assert.deepEqual(await scores(), ['600', '700']);
    assert.equal(await ofExec('600'), '600');
    assert.equal((await f.status(id)).resources?.linux?.oomScoreAdj, 600n);
    failApply = true;
    await assert.rejects(update(id, { oomScoreAdj: 650n }), /planned failure/);
    failApply = false;
    assert.deepEqual(await scores(), ['600', '700']);
    assert.equal((await f.status(id)).resources?.linux?.oomScoreAdj, 600n);
    await f.endPod(sandboxId);
    await leaks.assertNone();
  },
);

test(
  'numbers that mean nothing are refused wherever they come from, and shares are bounded',
  { skip: root },
  async () => {
    const config = pod(f.root, 'numbers');
    const sandboxId = await f.runSandbox(config);
    const id = await f.runContainer(
      sandboxId,
      config,
      container('main', ['sleep', '1000'], { linux: { resources: { cpuShares: 1n } } }),
    );
    const shares = async (): Promise<unknown> => (await f.status(id)).resources?.linux?.cpuShares;
    assert.equal(await shares(), 2n);
    await update(id, { cpuShares: 1n << 40n });
    assert.equal(await shares(), 262_144n);
    const { mode } = await detectCgroups();
    if (mode !== 'v2') assert.equal(await cgroupFile(await cgroupOf(id), 'cpu', 'cpu.shares', ''), '262144');
    const wrong: [Resources, RegExp][] = [
      [{ cpuShares: -5n }, /cpu_shares: -5/],
      [{ cpuPeriod: -1n }, /cpu_period: -1/],
      [{ memoryLimitInBytes: -7n }, /memory_limit_in_bytes: -7/],
      [{ cpusetCpus: '4095' }, /cpuset_cpus: this host has no 4095/],
    ];
    for (const [resources, message] of wrong) {
      const refused = { kind: 'InvalidArgument', message };
      const linux = { resources: LinuxContainerResources.fromPartial(resources) };
      await assert.rejects(update(id, resources), refused);
      await assert.rejects(updatePod(sandboxId, resources), refused);
      await assert.rejects(updatePod(sandboxId, {}, resources), refused);
      const created = f.createContainer(sandboxId, config, container('wrong', ['true'], { linux }));
      await assert.rejects(created, refused);
      const other = pod(f.root, 'numbers-other');
      await assert.rejects(f.runSandbox({ ...other, linux: other.linux && { ...other.linux, ...linux } }), refused);
    }
    await f.endPod(sandboxId);
    await leaks.assertNone();
  },
);

test(
  "a pod's own cgroup: containers and overhead together, after a restart as well; kubelet's is kubelet's",
  { skip: root },
  async () => {
    const config = pod(f.root, 'pod');
    const sandboxId = await f.runSandbox(config);
    const path = join(f.root.cgroupParent, `pod${sandboxId}`);
    await updatePod(
      sandboxId,
      { memoryLimitInBytes: BigInt(100 * MIB), cpuShares: 100n },
      { memoryLimitInBytes: BigInt(MIB) },
    );
    assert.equal(await memoryLimit(path), 101 * MIB);
    await f.restart();
    await f.runtime.recovered;
    await updatePod(sandboxId, { memoryLimitInBytes: BigInt(50 * MIB) });
    assert.equal(await memoryLimit(path), 51 * MIB);
    const { info } = await f.cri.podSandboxStatus(op, { podSandboxId: sandboxId, verbose: true });
    const { resources } = JSON.parse(info['info'] ?? '{}') as { resources: unknown };
    assert.deepEqual(resources, {
      resources: { memoryLimitBytes: 50 * MIB, cpuShares: 100 },
      overhead: { memoryLimitBytes: MIB },
    });
    await f.endPod(sandboxId);
    await assert.rejects(updatePod(sandboxId, {}), { kind: 'NotFound' });

    const theirs = `${f.root.cgroupParent}-kubelet/podx`;
    const cgroups = new Cgroups({ clock: systemClock, host: await detectCgroups() });
    await cgroups.create(theirs);
    try {
      const given = pod(f.root, 'given');
      const givenId = await f.runSandbox({ ...given, linux: given.linux && { ...given.linux, cgroupParent: theirs } });
      await updatePod(givenId, { memoryLimitInBytes: BigInt(50 * MIB) });
      assert.equal(await memoryLimit(theirs), -1);
      await f.endPod(givenId);
    } finally {
      await cgroups.remove(op, `${f.root.cgroupParent}-kubelet`);
    }
    await leaks.assertNone();
  },
);

test('UpdateRuntimeConfig: a range is taken note of, anything else refused', { skip: root }, async () => {
  const tell = async (podCidr: string): Promise<unknown> =>
    f.cri.updateRuntimeConfig?.(op, { runtimeConfig: { networkConfig: { podCidr } } });
  for (const range of ['', '10.1.0.0/16', '10.1.0.0/16,fd00::/64']) assert.deepEqual(await tell(range), {});
  for (const range of ['10.1.0.0', '10.1.0.0/33', 'x/8', '10.1.0.0/16/2']) {
    await assert.rejects(tell(range), { kind: 'InvalidArgument' });
  }
});
