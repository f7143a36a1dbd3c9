import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NamespaceMode, PodSandboxConfig } from '../../cri/gen/api.ts';
import { isKind } from '../../lib/errors.ts';
import { NO_FEATURES } from '../oci/runtime-features.ts';
import { planSandbox, sortSysctls, type SandboxHost } from './plan-sandbox.ts';

const host: SandboxHost = {
  instance: 'abc123',
  netnsDir: '/run/netns',
  cgroupParent: '/gantry-abc123',
  hostname: 'node',
  handler: {
    runtime: { name: 'crun', path: '/usr/bin/crun', root: '/oci-crun' },
    features: { ...NO_FEATURES, userNamespaces: true },
  },
};
const ID = 'a'.repeat(64);
const config = (more: object = {}): PodSandboxConfig =>
  PodSandboxConfig.fromPartial({
    metadata: { name: 'p', namespace: 'ns', uid: 'u', attempt: 2 },
    hostname: 'p',
    ...more,
  });
const withOptions = (namespaceOptions: object): PodSandboxConfig =>
  config({ linux: { securityContext: { namespaceOptions } } });
const invalid = (error: unknown): boolean => isKind(error, 'InvalidArgument');

test('nothing said: everything is the pod’s', () => {
  const facts = planSandbox(ID, config(), '', host);
  assert.deepEqual(facts, {
    name: 'p_ns_u_2',
    runtimeHandler: '',
    runtime: host.handler.runtime,
    namespaces: { network: 'pod', uts: 'pod', ipc: 'pod', pid: 'pod' },
    hostname: 'p',
    cgroupPath: `/gantry-abc123/pod${ID}`,
    netnsPath: '/run/netns/gantry-abc123-aaaaaaaaaaaaaaaa',
  });
});

test('the host’s network brings the host’s name and no namespace to pin', () => {
  const facts = planSandbox(ID, withOptions({ network: NamespaceMode.NODE, pid: NamespaceMode.CONTAINER }), '', host);
  assert.deepEqual(facts.namespaces, { network: 'host', uts: 'host', ipc: 'pod', pid: 'own' });
  assert.equal(facts.hostname, 'node');
  assert.equal(facts.netnsPath, undefined);
});

test('what cannot be is refused', () => {
  assert.throws(() => planSandbox(ID, config({ metadata: undefined }), '', host), invalid);
  assert.throws(() => planSandbox(ID, withOptions({ network: NamespaceMode.CONTAINER }), '', host), invalid);
  assert.throws(() => planSandbox(ID, withOptions({ pid: NamespaceMode.TARGET }), '', host), invalid);
  assert.throws(() => planSandbox(ID, config({ linux: { cgroupParent: '/a/../../b' } }), '', host), invalid);
  assert.throws(() => planSandbox(ID, config({ linux: { cgroupParent: '/' } }), '', host), invalid);
});

test("a pod's cgroup is a path that can be, and none of Gantry's own", () => {
  const parent = (cgroupParent: string) => planSandbox(ID, config({ linux: { cgroupParent } }), '', host).cgroupPath;
  assert.equal(parent('kubepods//pod1/'), '/kubepods/pod1');
  assert.equal(parent('/gantry-abc123/podu'), '/gantry-abc123/podu');
  assert.equal(parent('/gantry-abc123-other/daemon'), '/gantry-abc123-other/daemon');
  for (const own of ['', '/', '/daemon', '/daemon/x', '//monitors', '/./monitors', '/probe-runc']) {
    assert.throws(() => parent(`/gantry-abc123${own}`), invalid, own);
  }
  for (const none of ['/brk/x\0', '/a\nb', `/${'x'.repeat(256)}`, '/x'.repeat(2000), '..']) {
    assert.throws(() => parent(none), invalid, none);
  }
});

test('a user namespace: one range that begins with root, of a pod that has its own namespaces', () => {
  const range = { containerId: 0, hostId: 1000, length: 100_000 };
  const plan = (userns: object, more: object = {}, can = true) =>
    planSandbox(ID, withOptions({ usernsOptions: userns, ...more }), '', {
      ...host,
      handler: { ...host.handler, features: { ...NO_FEATURES, userNamespaces: can } },
    });
  const mapped = { mode: NamespaceMode.POD, uids: [range], gids: [range] };
  assert.deepEqual(plan(mapped).idMappings, { uids: [range], gids: [range] });
  assert.equal(plan({ mode: NamespaceMode.NODE }).idMappings, undefined);
  const refused = [
    { mode: NamespaceMode.CONTAINER },
    { mode: NamespaceMode.TARGET },
    { mode: NamespaceMode.POD },
    { ...mapped, uids: [range, range] },
    { ...mapped, gids: [{ ...range, containerId: 1 }] },
    { ...mapped, gids: [{ ...range, length: 0 }] },
    { ...mapped, uids: [{ ...range, hostId: 0xffff_fff0 }] },
  ];
  for (const userns of refused) assert.throws(() => plan(userns), invalid, JSON.stringify(userns));
  for (const kind of ['network', 'pid', 'ipc']) {
    assert.throws(() => plan(mapped, { [kind]: NamespaceMode.NODE }), invalid, kind);
  }
  assert.throws(
    () => plan(mapped, {}, false),
    (error) => isKind(error, 'FailedPrecondition'),
  );
});

test('a sysctl goes to the namespace that it belongs to, and never to the host', () => {
  const own = { network: 'pod', uts: 'pod', ipc: 'pod', pid: 'own' } as const;
  assert.deepEqual(sortSysctls({ 'net.ipv4.ip_forward': '1', 'kernel.shmmax': '5' }, own), {
    pinned: { 'net/ipv4/ip_forward': '1', 'kernel/shmmax': '5' },
    perContainer: {},
  });
  assert.deepEqual(sortSysctls({ 'kernel.shmmax': '5' }, { ...own, ipc: 'own' }), {
    pinned: {},
    perContainer: { 'kernel.shmmax': '5' },
  });
  // A dot in an interface's name, in both ways to write it.
  for (const name of ['net/ipv4/conf/eth0.1/forwarding', 'net.ipv4.conf.eth0/1.forwarding']) {
    assert.deepEqual(sortSysctls({ [name]: '1' }, own).pinned, { 'net/ipv4/conf/eth0.1/forwarding': '1' });
  }
  assert.throws(() => sortSysctls({ 'net.ipv4.ip_forward': '1' }, { ...own, network: 'host' }), invalid);
  assert.throws(() => sortSysctls({ 'kernel.shmmax': '1' }, { ...own, ipc: 'host' }), invalid);
  for (const name of ['vm.swappiness', 'kernel.panic', 'kernel.shm_next_id', 'fs.file-max', '../x', 'net/../vm/x']) {
    assert.throws(() => sortSysctls({ [name]: '1' }, own), invalid, name);
  }
});
