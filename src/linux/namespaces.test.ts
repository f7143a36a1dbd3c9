import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sysctlFile } from './namespaces.ts';

const pod = { net: '/n', ipc: '/i' };

test('sysctls that belong to the pod', () => {
  assert.equal(sysctlFile('net.ipv4.ip_forward', pod), '/proc/sys/net/ipv4/ip_forward');
  assert.equal(sysctlFile('net/ipv4/conf/eth0.1/forwarding', pod), '/proc/sys/net/ipv4/conf/eth0.1/forwarding');
  assert.equal(sysctlFile('net.ipv4.conf.eth0/1.forwarding', pod), '/proc/sys/net/ipv4/conf/eth0.1/forwarding');
  assert.equal(sysctlFile('kernel.shm_rmid_forced', pod), '/proc/sys/kernel/shm_rmid_forced');
  assert.equal(sysctlFile('fs.mqueue.msg_max', pod), '/proc/sys/fs/mqueue/msg_max');
});

test('and those that do not', () => {
  for (const name of [
    'kernel.core_pattern',
    'vm.swappiness',
    'kernel.shmfoo/../../x',
    'net.',
    '../net.x',
    'net..x',
    'net',
  ]) {
    assert.throws(() => sysctlFile(name, pod), /sysctl/, name);
  }
  assert.throws(() => sysctlFile('net.ipv4.ip_forward', { ipc: '/i' }), /host's network/);
  assert.throws(() => sysctlFile('kernel.sem', { net: '/n' }), /host's IPC/);
});
