import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NamespaceMode, PodSandboxConfig } from '../../cri/gen/api.ts';
import { isKind } from '../../lib/errors.ts';
import { planSandbox, sortSysctls, type SandboxHost } from './plan-sandbox.ts';

const host: SandboxHost = {
  instance: 'abc123',
  netnsDir: '/run/netns',
  cgroupParent: '/gantry-abc123',
  hostname: 'node',
  runtime: { name: 'crun', path: '/usr/bin/crun', root: '/oci-crun' },
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
    runtime: host.runtime,
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
  const userns = withOptions({ usernsOptions: { mode: NamespaceMode.POD } });
  assert.throws(
    () => planSandbox(ID, userns, '', host),
    (error) => isKind(error, 'NotImplemented'),
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
