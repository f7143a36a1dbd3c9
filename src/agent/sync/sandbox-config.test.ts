import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  MountPropagation,
  NamespaceMode,
  Protocol,
  SecurityProfile_ProfileType,
  Signal,
  SupplementalGroupsPolicy,
} from '../../cri/gen/api.ts';
import { NO_FEATURES } from '../node/runtime-features.ts';
import { testPod } from '../pods/test-pod.ts';
import { containerConfig, type ContainerConfigInput } from './container-config.ts';
import { dnsConfig, parseResolvConf } from './dns.ts';
import { hostnameOf, hostsFile } from './hosts-file.ts';
import { cgroupResources, qosClass } from './resources.ts';
import { sandboxConfig } from './sandbox-config.ts';

const dns = { servers: ['192.0.2.53'], searches: [], options: [] };

await test('a sandbox gets its names, ports, sysctls, namespaces and cgroup', () => {
  const pod = testPod({
    shareProcessNamespace: true,
    securityContext: { sysctls: [{ name: 'net.ipv4.ip_local_port_range', value: '1024 2048' }] },
    containers: [
      { name: 'a', image: 'i', ports: [{ containerPort: 80, hostPort: 8080 }, { containerPort: 81 }] },
      { name: 'b', image: 'i', ports: [{ containerPort: 53, hostPort: 5353, protocol: 'UDP', hostIP: '127.0.0.1' }] },
    ],
  });
  const config = sandboxConfig({ pod, attempt: 2, logDirectory: '/logs', dns, cgroupParent: '/gantry/pod1' });
  assert.deepEqual(config.metadata, { name: 'web', namespace: 'default', uid: pod.uid, attempt: 2 });
  assert.equal(config.hostname, 'web');
  assert.equal(config.linux?.cgroupParent, '/gantry/pod1');
  assert.deepEqual(config.linux.sysctls, { 'net.ipv4.ip_local_port_range': '1024 2048' });
  assert.equal(config.linux.securityContext?.namespaceOptions?.pid, NamespaceMode.POD);
  assert.deepEqual(
    config.portMappings.map(({ protocol, containerPort, hostPort, hostIp }) => [
      protocol,
      containerPort,
      hostPort,
      hostIp,
    ]),
    [
      [Protocol.TCP, 80, 8080, ''],
      [Protocol.UDP, 53, 5353, '127.0.0.1'],
    ],
  );
  assert.equal(config.labels['io.kubernetes.pod.uid'], pod.uid);
  const onHost = sandboxConfig({
    pod: testPod({ ...pod.spec, hostNetwork: true }),
    attempt: 0,
    logDirectory: '',
    dns,
    cgroupParent: '/g',
  });
  assert.deepEqual([onHost.portMappings, onHost.hostname], [[], '']);
});

function input(more: Partial<ContainerConfigInput> = {}): ContainerConfigInput {
  const pod = more.pod ?? testPod();
  return {
    pod,
    container: { name: 'main', image: 'i' },
    attempt: 3,
    crashes: 2,
    bootId: 'boot-2',
    env: new Map([['WHO', Buffer.from('me')]]),
    imageRef: 'sha256:1',
    imageUser: { kind: 'name', name: '' },
    imageVolumes: new Map(),
    volumePaths: new Map([['data', '/pods/data']]),
    hostsFile: '/pods/etc-hosts',
    logPath: 'main/3.log',
    node: { memoryBytes: 1 << 30, hugePageSizes: [] },
    seccompProfileRoot: '/root/seccomp',
    features: { userNamespaces: true, recursiveReadOnlyMounts: true, supplementalGroupsPolicy: true },
    ...more,
  };
}

await test('what tells too much about the machine is hidden from a container, unless it is privileged', () => {
  const hidden = (securityContext: object): string[][] => {
    const container = { name: 'main', image: 'i', securityContext };
    const { maskedPaths = [], readonlyPaths = [] } = containerConfig(input({ container })).linux?.securityContext ?? {};
    return [maskedPaths, readonlyPaths];
  };
  for (const path of ['/proc/interrupts', '/proc/kcore', '/sys/firmware'])
    assert.ok(hidden({ procMount: 'Default' })[0]?.includes(path), path);
  assert.ok(hidden({})[1]?.includes('/proc/sys'));
  assert.deepEqual(hidden({ privileged: true }), [[], []]);
  assert.deepEqual(hidden({ procMount: 'Unmasked' }), [[], []]);
});

await test('a mount is read-only all the way down where it can be; where it has to be and cannot, that is said', () => {
  const recursive = (recursiveReadOnly: string | undefined, more: Partial<ContainerConfigInput> = {}) => {
    const volumeMounts = [{ name: 'data', mountPath: '/data', readOnly: true, recursiveReadOnly }];
    return containerConfig(input({ container: { name: 'main', image: 'i', volumeMounts }, ...more })).mounts[0]
      ?.recursiveReadOnly;
  };
  const features = NO_FEATURES;
  assert.deepEqual(
    [undefined, 'Disabled', 'IfPossible', 'Enabled'].map((mode) => recursive(mode)),
    [...[false, false], ...[true, true]],
  );
  assert.deepEqual([recursive('Disabled', { features }), recursive('IfPossible', { features })], [false, false]);
  assert.throws(() => recursive('Enabled', { features }), /volume "data": recursiveReadOnly: Enabled: .*IfPossible/);
});

await test("the image's groups are left out by a runtime that knows how", () => {
  const pod = (supplementalGroupsPolicy?: string) => testPod({ securityContext: { supplementalGroupsPolicy } });
  const policies = (policy?: string) => [
    containerConfig(input({ pod: pod(policy) })).linux?.securityContext?.supplementalGroupsPolicy,
    sandboxConfig({ pod: pod(policy), attempt: 0, logDirectory: '', dns, cgroupParent: '/g' }).linux?.securityContext
      ?.supplementalGroupsPolicy,
  ];
  const { Merge, Strict } = SupplementalGroupsPolicy;
  assert.deepEqual(
    [policies(), policies('Merge'), policies('Strict')],
    [
      [Merge, Merge],
      [Merge, Merge],
      [Strict, Strict],
    ],
  );
  assert.throws(
    () => containerConfig(input({ pod: pod('Strict'), features: NO_FEATURES })),
    /main: the runtime does not know supplementalGroupsPolicy: Strict/,
  );
});

await test('a container gets its command, mounts, marks and signal', () => {
  const config = containerConfig(
    input({
      container: {
        name: 'main',
        image: 'i',
        command: ['echo', '$(WHO)'],
        args: ['$$(WHO)', '$(NOBODY)'],
        lifecycle: { stopSignal: 'SIGRTMIN+3', preStop: { sleep: { seconds: 1 } } },
        volumeMounts: [{ name: 'data', mountPath: '/data/', readOnly: true, mountPropagation: 'Bidirectional' }],
        securityContext: { capabilities: { add: ['CAP_NET_ADMIN'], drop: ['ALL'] }, allowPrivilegeEscalation: false },
      },
    }),
  );
  assert.deepEqual(
    [config.command, config.args],
    [
      ['echo', 'me'],
      ['$(WHO)', '$(NOBODY)'],
    ],
  );
  assert.deepEqual(
    config.mounts.map(({ containerPath, hostPath, readonly, propagation }) => [
      containerPath,
      hostPath,
      readonly,
      propagation,
    ]),
    [
      ['/data', '/pods/data', true, MountPropagation.PROPAGATION_BIDIRECTIONAL],
      ['/etc/hosts', '/pods/etc-hosts', false, MountPropagation.PROPAGATION_PRIVATE],
    ],
  );
  assert.equal(config.stopSignal, Signal.SIGRTMINPLUS3);
  assert.equal(config.annotations['io.kubernetes.container.restartCount'], '3');
  assert.equal(config.annotations['io.gantry.container.crashes'], '2');
  assert.equal(config.annotations['io.gantry.container.boot'], 'boot-2');
  const security = config.linux?.securityContext;
  assert.ok(security !== undefined);
  assert.deepEqual(security.capabilities?.addCapabilities, ['NET_ADMIN']);
  assert.ok(security.noNewPrivs);
  assert.equal(security.seccomp?.profileType, SecurityProfile_ProfileType.RuntimeDefault);
});

await test('volumes of a ConfigMap and of a Secret are read-only, asked for or not', () => {
  const volumes = [
    { name: 'conf', configMap: { name: 'c' } },
    { name: 'key', secret: { secretName: 's' } },
    { name: 'data', emptyDir: {} },
  ];
  const names = volumes.map(({ name }) => name);
  const config = containerConfig(
    input({
      pod: testPod({ volumes }),
      container: { name: 'main', image: 'i', volumeMounts: names.map((name) => ({ name, mountPath: `/${name}` })) },
      volumePaths: new Map(names.map((name) => [name, `/pods/${name}`])),
      hostsFile: undefined,
    }),
  );
  assert.deepEqual(
    config.mounts.map(({ containerPath, readonly }) => [containerPath, readonly]),
    [
      ['/conf', true],
      ['/key', true],
      ['/data', false],
    ],
  );
});

await test('runAsNonRoot holds against pod, container and image', () => {
  const nonRoot = { securityContext: { runAsNonRoot: true } };
  const build = (container: object, imageUser: ContainerConfigInput['imageUser']): unknown =>
    containerConfig(input({ container: { name: 'main', image: 'i', ...container }, imageUser }));
  assert.throws(() => build(nonRoot, { kind: 'name', name: '' }), /runs as root/);
  assert.throws(() => build(nonRoot, { kind: 'uid', uid: 0n }), /runs as root/);
  assert.throws(() => build(nonRoot, { kind: 'name', name: 'web' }), /is a name/);
  build(nonRoot, { kind: 'uid', uid: 1000n });
  build({ securityContext: { runAsNonRoot: true, runAsUser: 7 } }, { kind: 'name', name: '' });
});

await test('a mount of a volume that is not there is refused', () => {
  const container = { name: 'main', image: 'i', volumeMounts: [{ name: 'none', mountPath: '/x' }] };
  assert.throws(() => containerConfig(input({ container })), /volume "none" is not mounted/);
});

await test('quality of service and cgroup values', () => {
  const spec = (resources: object): ReturnType<typeof testPod>['spec'] =>
    testPod({ containers: [{ name: 'main', image: 'i', resources }] }).spec;
  const all = spec({ limits: { cpu: '500m', memory: '64Mi' } });
  const some = spec({ requests: { memory: '512Mi' } });
  assert.deepEqual([qosClass(all), qosClass(some), qosClass(spec({}))], ['Guaranteed', 'Burstable', 'BestEffort']);
  const of = (pod: typeof all): unknown =>
    cgroupResources(pod, pod.containers[0] ?? { name: '' }, { memoryBytes: 1 << 30, hugePageSizes: [] });
  assert.deepEqual(of(all), {
    cpuPeriodUs: 100_000,
    cpuQuotaUs: 50_000,
    cpuShares: 512,
    memoryLimitBytes: 1 << 26,
    oomScoreAdj: -997,
    hugePages: [],
  });
  assert.deepEqual(of(some), {
    cpuPeriodUs: 0,
    cpuQuotaUs: 0,
    cpuShares: 2,
    memoryLimitBytes: 0,
    oomScoreAdj: 500,
    hugePages: [],
  });
});

await test('resolv.conf: the host’s, what is behind its loopback resolver, or the pod’s own', () => {
  const host = parseResolvConf('# x\nnameserver 127.0.0.53\nsearch a.test b.test\noptions ndots:1 edns0\n');
  const upstream = parseResolvConf('nameserver 192.0.2.1\n');
  const spec = testPod().spec;
  assert.deepEqual(dnsConfig(spec, host, upstream), {
    servers: ['192.0.2.1'],
    searches: ['a.test', 'b.test'],
    options: ['ndots:1', 'edns0'],
  });
  assert.deepEqual(dnsConfig({ ...spec, hostNetwork: true }, host, upstream).servers, ['127.0.0.53']);
  const own = {
    ...spec,
    dnsPolicy: 'None',
    dnsConfig: { nameservers: ['192.0.2.9'], options: [{ name: 'ndots', value: '5' }] },
  };
  assert.deepEqual(dnsConfig(own, host, upstream), { servers: ['192.0.2.9'], searches: [], options: ['ndots:5'] });
});

await test('/etc/hosts and the hostname', () => {
  const text = hostsFile({ hostname: 'web', ips: ['10.0.0.2'], aliases: [{ ip: '192.0.2.7', hostnames: ['a', 'b'] }] });
  assert.match(text, /^127\.0\.0\.1\tlocalhost$/m);
  assert.match(text, /^10\.0\.0\.2\tweb$/m);
  assert.match(text, /^192\.0\.2\.7\ta\tb$/m);
  assert.equal(hostnameOf({ name: `${'x'.repeat(62)}-y`, spec: {} }), 'x'.repeat(62));
});

await test('users of its own: in both requests, and on each mount', () => {
  const userNamespace = { containerId: 0, hostId: 655_360, length: 65_536 };
  const pod = testPod({ hostUsers: false });
  const sandbox = sandboxConfig({ pod, attempt: 0, logDirectory: '', dns, cgroupParent: '/g', userNamespace });
  const container = containerConfig(
    input({
      pod,
      userNamespace,
      container: { name: 'main', image: 'i', volumeMounts: [{ name: 'data', mountPath: '/data' }] },
    }),
  );
  const expected = { mode: NamespaceMode.POD, uids: [userNamespace], gids: [userNamespace] };
  for (const config of [sandbox, container]) {
    assert.deepEqual(config.linux?.securityContext?.namespaceOptions?.usernsOptions, expected);
  }
  assert.deepEqual(
    container.mounts.map(({ containerPath, uidMappings, gidMappings }) => [containerPath, uidMappings, gidMappings]),
    ['/data', '/etc/hosts'].map((path) => [path, [userNamespace], [userNamespace]]),
  );
  const plain = sandboxConfig({ pod: testPod(), attempt: 0, logDirectory: '', dns, cgroupParent: '/g' });
  assert.equal(plain.linux?.securityContext?.namespaceOptions?.usernsOptions, undefined);
});

await test('an image as a volume: read-only, whole or in part, and never with ids of its own', () => {
  const userNamespace = { containerId: 0, hostId: 655_360, length: 65_536 };
  const pod = testPod({ volumes: [{ name: 'model', image: { reference: 'example.test/model:1' } }] });
  const container = {
    name: 'main',
    image: 'i',
    volumeMounts: [
      { name: 'model', mountPath: '/model', readOnly: false },
      { name: 'model', mountPath: '/part', subPath: 'deep/er' },
    ],
  };
  const imageVolumes = new Map([['model', 'sha256:2']]);
  const { mounts } = containerConfig(input({ pod, container, imageVolumes, userNamespace, hostsFile: undefined }));
  assert.deepEqual(
    mounts.map((mount) => [
      ...[mount.containerPath, mount.hostPath, mount.readonly, mount.imageSubPath],
      ...[mount.image?.image, mount.image?.userSpecifiedImage, mount.uidMappings],
    ]),
    [
      ['/model', '', true, '', 'sha256:2', 'example.test/model:1', []],
      ['/part', '', true, 'deep/er', 'sha256:2', 'example.test/model:1', []],
    ],
  );
  assert.throws(() => containerConfig(input({ pod, container })), /the image of volume "model" is not there/);
});

await test('profiles: the container’s own before the pod’s, files below their folder, none for the privileged', () => {
  const { Localhost, RuntimeDefault, Unconfined } = SecurityProfile_ProfileType;
  const file = { type: 'Localhost', localhostProfile: 'team/audit.json' };
  const loaded = { type: 'Localhost', localhostProfile: 'k8s-deny' };
  const of = (ofPod: object, ofContainer: object = {}): unknown[] => {
    const pod = testPod({ securityContext: ofPod });
    const container = { name: 'main', image: 'i', securityContext: ofContainer };
    const { seccomp, apparmor } = containerConfig(input({ pod, container })).linux?.securityContext ?? {};
    return [seccomp?.profileType, seccomp?.localhostRef, apparmor?.profileType, apparmor?.localhostRef];
  };
  assert.deepEqual(of({}), [RuntimeDefault, '', undefined, undefined]);
  assert.deepEqual(of({ seccompProfile: file, appArmorProfile: loaded }), [
    ...[Localhost, '/root/seccomp/team/audit.json'],
    ...[Localhost, 'k8s-deny'],
  ]);
  assert.deepEqual(
    of(
      { seccompProfile: file, appArmorProfile: loaded },
      { seccompProfile: { type: 'Unconfined' }, appArmorProfile: { type: 'RuntimeDefault' } },
    ),
    [Unconfined, '', RuntimeDefault, ''],
  );
  assert.deepEqual(of({ seccompProfile: file }, { privileged: true }).slice(0, 2), [Unconfined, '']);
  assert.throws(() => of({ seccompProfile: { type: 'Localhost' } }), /needs localhostProfile/);
  const pod = testPod({ securityContext: { seccompProfile: file } });
  const sandbox = sandboxConfig({ pod, attempt: 0, logDirectory: '', dns, cgroupParent: '/g' });
  assert.equal(sandbox.linux?.securityContext?.seccomp?.profileType, RuntimeDefault, 'the runtime’s own programs');
});

await test('huge pages: a limit for each size of the machine’s, none for who asks for none', () => {
  const node = { memoryBytes: 1 << 30, hugePageSizes: [2 << 20, 1 << 30] };
  const limits = { memory: '64Mi', 'hugepages-2Mi': '4Mi' };
  const of = (resources: object): unknown =>
    containerConfig(input({ node, container: { name: 'main', image: 'i', resources } })).linux?.resources
      ?.hugepageLimits;
  assert.deepEqual(of({ limits }), [
    { pageSize: '2MB', limit: 4_194_304n },
    { pageSize: '1GB', limit: 0n },
  ]);
  assert.deepEqual(of({}), [
    { pageSize: '2MB', limit: 0n },
    { pageSize: '1GB', limit: 0n },
  ]);
});
