import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { buildContainerSpec } from './build-container-spec.ts';
import { buildInfraSpec } from './build-infra-spec.ts';
import { CAPABILITIES } from './capabilities.ts';
import type { ContainerSpecInput, HostFacts } from './container-spec-input.ts';
import type { OciMount, OciSpec } from './spec.ts';

const host: HostFacts = {
  cgroupMode: 'v2',
  boundingCapabilities: CAPABILITIES,
  lastCapability: 40,
  oomScoreAdj: 0,
  mayLowerOomScoreAdj: true,
  swapAccounting: true,
  hugePageSizes: ['2MB'],
  appArmor: true,
  seLinux: false,
};
const seccomp = { defaultAction: 'SCMP_ACT_ERRNO' };
const base: ContainerSpecInput = {
  host,
  rootfs: '/run/x/rootfs',
  image: { cmd: ['sh'] },
  user: { uid: 0, gid: 0, additionalGids: [0] },
  namespaces: {
    pid: { kind: 'new' },
    ipc: { kind: 'path', path: '/run/x/ipc' },
    uts: { kind: 'path', path: '/run/x/uts' },
    network: { kind: 'path', path: '/run/x/net' },
  },
  seccomp,
  cgroupPath: '/gantry-x/pod1/c1',
};
const build = (input: Partial<ContainerSpecInput> = {}): OciSpec => buildContainerSpec({ ...base, ...input });
const mountAt = (spec: OciSpec, destination: string): OciMount | undefined =>
  spec.mounts.find((mount) => mount.destination === destination);

test('the lowest version, no rlimits, the cgroup by path', () => {
  const spec = build();
  assert.equal(spec.ociVersion, '1.0.2');
  assert.equal('rlimits' in spec.process, false);
  assert.equal(spec.linux.cgroupsPath, '/gantry-x/pod1/c1');
  assert.equal(spec.process.cwd, '/');
  assert.equal(JSON.stringify(spec).includes('null'), false);
});

test('namespaces: new, joined by path, the host by absence', () => {
  assert.deepEqual(build().linux.namespaces, [
    { type: 'pid' },
    { type: 'ipc', path: '/run/x/ipc' },
    { type: 'uts', path: '/run/x/uts' },
    { type: 'network', path: '/run/x/net' },
    { type: 'mount' },
    { type: 'cgroup' },
  ]);
  const ofHost = { kind: 'host' } as const;
  const spec = build({ namespaces: { pid: ofHost, ipc: ofHost, uts: ofHost, network: ofHost }, hostname: 'x' });
  assert.deepEqual(spec.linux.namespaces, [{ type: 'mount' }, { type: 'cgroup' }]);
  assert.equal(spec.hostname, undefined);
  assert.equal(build({ host: { ...host, cgroupMode: 'v1' } }).linux.namespaces.at(-1)?.type, 'mount');
});

test('a host name is set in a UTS namespace of its own, and told in any', () => {
  assert.equal(build({ hostname: 'pod' }).hostname, undefined);
  assert.ok(build({ hostname: 'pod' }).process.env.includes('HOSTNAME=pod'));
  const namespaces = { ...base.namespaces, uts: { kind: 'new' } as const };
  assert.equal(build({ hostname: 'pod', namespaces }).hostname, 'pod');
});

test('unprivileged: masked, read-only, filtered; privileged: none of it, and every device', () => {
  const plain = build({ apparmorProfile: 'gantry-default' });
  assert.ok(plain.linux.maskedPaths?.includes('/proc/kcore'));
  assert.ok(plain.linux.readonlyPaths?.includes('/proc/sys'));
  assert.equal(plain.linux.seccomp, seccomp);
  assert.equal(plain.process.apparmorProfile, 'gantry-default');
  assert.ok(mountAt(plain, '/sys')?.options?.includes('ro'));
  assert.deepEqual(plain.linux.resources?.devices, [{ allow: false, access: 'rwm' }]);
  const hostDevices = [{ type: 'c', path: '/dev/fuse', major: 10, minor: 229 }] as const;
  assert.equal(build({ hostDevices }).linux.devices, undefined);
  const spec = build({ privileged: true, hostDevices, apparmorProfile: 'gantry-default' });
  assert.deepEqual([spec.linux.maskedPaths, spec.linux.readonlyPaths, spec.linux.seccomp], [[], [], undefined]);
  assert.equal(spec.process.apparmorProfile, undefined);
  assert.ok(mountAt(spec, '/sys')?.options?.includes('rw'));
  assert.ok(mountAt(spec, '/sys/fs/cgroup')?.options?.includes('rw'));
  assert.deepEqual(spec.linux.devices, hostDevices);
  const device = { type: 'c', path: '/dev/fuse', major: 5, minor: 6 } as const;
  const other = build({
    privileged: true,
    hostDevices,
    devices: [{ containerPath: '/dev/fuse', device, permissions: 'r' }],
  });
  assert.deepEqual(other.linux.devices, [device], 'what is asked for takes its place');
  assert.deepEqual(spec.linux.resources?.devices, [{ allow: true, access: 'rwm' }]);
  assert.deepEqual(spec.process.capabilities?.bounding, CAPABILITIES);
  assert.deepEqual(build({ maskedPaths: [], readonlyPaths: [] }).linux.maskedPaths, []);
});

test('the pod’s files, and mounts of its own in their place', () => {
  const input = {
    ...{ hostsPath: '/p/hosts', hostnamePath: '/p/hostname', resolvConfPath: '/p/resolv.conf', shmPath: '/p/shm' },
    mounts: [
      { containerPath: '/etc/hosts/', hostPath: '/own/hosts', readOnly: true },
      { containerPath: '/data/a', hostPath: '/own/a' },
      { containerPath: '/data', hostPath: '/own/data', propagation: 'rslave' as const },
    ],
  };
  const spec = build(input);
  assert.deepEqual(mountAt(spec, '/etc/hosts'), {
    destination: '/etc/hosts',
    type: 'bind',
    source: '/own/hosts',
    options: ['rbind', 'rprivate', 'ro'],
  });
  assert.equal(mountAt(spec, '/etc/hostname')?.source, '/p/hostname');
  assert.ok(mountAt(spec, '/etc/hostname')?.options?.includes('rw'));
  assert.ok(mountAt(build({ ...input, readOnlyRootfs: true }), '/etc/hostname')?.options?.includes('ro'));
  assert.equal(mountAt(spec, '/dev/shm')?.source, '/p/shm');
  assert.equal(spec.linux.rootfsPropagation, 'rslave');
  const places = spec.mounts.map((mount) => mount.destination);
  assert.ok(places.indexOf('/data') < places.indexOf('/data/a'));
});

test('propagation of the root follows the widest of the mounts', () => {
  const mount = (propagation?: 'private' | 'rslave' | 'rshared') => ({
    containerPath: '/d',
    hostPath: '/d',
    propagation,
  });
  assert.equal(build({ mounts: [mount()] }).linux.rootfsPropagation, undefined);
  assert.equal(build({ mounts: [mount('rslave'), mount('rshared')] }).linux.rootfsPropagation, 'rshared');
});

test('paths that are not absolute are refused', () => {
  assert.throws(() => build({ mounts: [{ containerPath: 'data', hostPath: '/d' }] }), /must be absolute/);
  assert.throws(() => build({ mounts: [{ containerPath: '/data', hostPath: 'd' }] }), /must be absolute/);
  assert.throws(() => build({ mounts: [{ containerPath: '/x/..', hostPath: '/d' }] }), /over the root/);
});

test('resources: zero means none', () => {
  const of = (resources: ContainerSpecInput['resources'], more: Partial<HostFacts> = {}) =>
    build({ resources, host: { ...host, ...more } }).linux.resources;
  const devices = [{ allow: false, access: 'rwm' }];
  assert.deepEqual(of({ cpuShares: 0, cpuQuotaUs: 0, memoryLimitBytes: 0, cpusetCpus: '' }), { devices });
  assert.deepEqual(
    of({
      ...{ cpuShares: 512, cpuQuotaUs: -1, cpuPeriodUs: 100_000, cpusetCpus: '0-1', cpusetMems: '0' },
      ...{ memoryLimitBytes: 100, memorySwapLimitBytes: 200, unified: { 'memory.high': '50' } },
      hugepageLimits: [{ pageSize: '2MB', limitBytes: 4 << 20 }],
    }),
    {
      devices,
      cpu: { shares: 512, quota: -1, period: 100_000, cpus: '0-1', mems: '0' },
      memory: { limit: 100, swap: 200 },
      hugepageLimits: [{ pageSize: '2MB', limit: 4 << 20 }],
      unified: { 'memory.high': '50' },
    },
  );
  assert.deepEqual(of({ memoryLimitBytes: 1, memorySwapLimitBytes: 2 }, { swapAccounting: false })?.memory, {
    limit: 1,
  });
  const hugepageLimits = [{ pageSize: '2MB', limitBytes: 1 }];
  assert.equal(of({ hugepageLimits }, { hugePageSizes: [] })?.hugepageLimits, undefined);
  assert.throws(() => of({ unified: { 'memory.high': '1' } }, { cgroupMode: 'hybrid' }), /needs cgroup v2/);
});

test('oom_score_adj goes below our own only where that is allowed', () => {
  const of = (oomScoreAdj: number, more: Partial<HostFacts>) =>
    build({ resources: { oomScoreAdj }, host: { ...host, ...more } }).process.oomScoreAdj;
  assert.equal(of(-997, {}), -997);
  assert.equal(of(-997, { mayLowerOomScoreAdj: false, oomScoreAdj: -5 }), -5);
  assert.equal(of(1000, { mayLowerOomScoreAdj: false }), 1000);
  assert.equal(of(-2000, {}), -1000);
  assert.equal('oomScoreAdj' in build().process, false);
});

test('devices of its own', () => {
  const device = { type: 'c', path: '/dev/x', major: 5, minor: 6 } as const;
  const spec = build({ devices: [{ containerPath: '/dev/y', device, permissions: 'rw' }] });
  assert.deepEqual(spec.linux.devices, [{ ...device, path: '/dev/y' }]);
  assert.deepEqual(spec.linux.resources?.devices?.[1], { allow: true, type: 'c', major: 5, minor: 6, access: 'rw' });
});

test('mounts are always in an order in which they can be mounted, and no place is taken twice by us', () => {
  const path = fc
    .array(fc.constantFrom('a', 'etc', 'dev', 'shm', 'hosts', 'proc'), { minLength: 1, maxLength: 4 })
    .map((names) => `/${names.join('/')}`);
  fc.assert(
    fc.property(fc.uniqueArray(path), (paths) => {
      const spec = build({
        ...{ hostsPath: '/p/hosts', shmPath: '/p/shm' },
        mounts: paths.map((containerPath) => ({ containerPath, hostPath: '/h' })),
      });
      const places = spec.mounts.map((mount) => mount.destination);
      assert.equal(new Set(places).size, places.length);
      for (const [index, place] of places.entries()) {
        assert.ok(places.slice(index).every((later) => !place.startsWith(`${later}/`)));
      }
      for (const own of paths) assert.equal(mountAt(spec, own)?.source, '/h');
    }),
  );
});

test('the infra process has no rights, and a PID namespace of its own', () => {
  const spec = buildInfraSpec({
    host,
    rootfs: '/r',
    catatonit: '/usr/bin/catatonit',
    namespaces: base.namespaces,
    cgroupPath: '/gantry-x/pod1/infra',
  });
  assert.deepEqual(spec.process.args, ['/catatonit', '-P']);
  assert.deepEqual(spec.process.capabilities?.bounding, []);
  assert.equal(spec.process.noNewPrivileges, true);
  assert.deepEqual(spec.linux.namespaces[0], { type: 'pid' });
});

test("with systemd's cgroups it is in a scope, without a limit of tasks that nobody asked for", () => {
  const id = 'ab'.repeat(32);
  const scope = {
    cgroupPath: `/g.slice/g-pod1.slice/g-pod1-${id}.slice/gantry-x-${id}.scope`,
    systemdCgroup: true,
  };
  const { linux, annotations } = build(scope);
  assert.equal(linux.cgroupsPath, `g-pod1-${id}.slice:gantry-x:${id}`);
  assert.equal(annotations?.['run.oci.systemd.subgroup'], '');
  assert.deepEqual(linux.resources?.pids, { limit: -1 });
  assert.equal(build({ ...scope, resources: { unified: { 'pids.max': '5' } } }).linux.resources?.pids, undefined);
  assert.equal(build().linux.resources?.pids, undefined);
});
