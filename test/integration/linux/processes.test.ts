import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readlinkSync } from 'node:fs';
import { test } from 'node:test';
import { systemClock } from '../../../src/lib/clock.ts';
import { Namespaces } from '../../../src/linux/namespaces.ts';
import { PidfdWatcher } from '../../../src/linux/pidfd-watcher.ts';
import type { WaitStatus } from '../../../src/linux/pidfd.ts';
import { inodeOf, processIdentity } from '../../../src/linux/procfs.ts';
import { needsRoot, op, Scratch } from './scratch.ts';

test('exits of processes, told once, with their status where the kernel still knows', async () => {
  using watcher = new PidfdWatcher();
  const wanted: [string, WaitStatus][] = [
    ['exit 0', { kind: 'exited', code: 0 }],
    ['exit 137', { kind: 'exited', code: 137 }],
    ['kill -9 $$', { kind: 'signaled', signal: 9, coreDumped: false }],
  ];
  for (const [script, status] of wanted) {
    const child = spawn('sh', ['-c', `read go; ${script}`], { stdio: ['pipe', 'ignore', 'ignore'] });
    const identity = await processIdentity(child.pid ?? 0);
    assert.ok(identity !== undefined);
    const seen: (WaitStatus | undefined)[] = [];
    const told = new Promise<void>((resolve) => {
      watcher.watch(identity, (found) => {
        seen.push(found);
        resolve();
      });
    });
    child.stdin.end('go\n');
    await Promise.all([told, once(child, 'exit')]);
    // Reaped before we asked, on a kernel that forgets: nobody knows.
    if (seen[0] !== undefined) assert.deepEqual(seen, [status]);
  }
  assert.equal(watcher.size, 0);
});

test('one that is gone already, and a watch that was given up', async () => {
  using watcher = new PidfdWatcher();
  await new Promise<void>((resolve) => {
    watcher.watch({ pid: process.pid, startTimeTicks: 1 }, () => {
      resolve();
    });
  });
  const child = spawn('sleep', ['1000']);
  const identity = await processIdentity(child.pid ?? 0);
  assert.ok(identity !== undefined);
  let calls = 0;
  watcher.watch(identity, () => calls++)[Symbol.dispose]();
  child.kill('SIGKILL');
  await once(child, 'exit');
  await systemClock.sleep(50);
  assert.equal(calls, 0);
});

test('namespaces without a process: pinned all or none, and let go', needsRoot, async () => {
  using scratch = new Scratch();
  const namespaces = new Namespaces({ clock: systemClock });
  const own = readlinkSync('/proc/self/ns/net');
  const [net, ipc, uts] = [scratch.join('net'), scratch.join('ipc'), scratch.join('uts')];
  const sysctls = { 'net.ipv4.ip_unprivileged_port_start': '80', 'kernel.shm_rmid_forced': '1' };
  const { inodes } = await namespaces.pinNamespaces(op, { net, ipc, uts, hostname: 'the-pod', sysctls });
  const script =
    'hostname; cat /proc/sys/net/ipv4/ip_unprivileged_port_start /proc/sys/kernel/shm_rmid_forced; cat /sys/class/net/lo/operstate; readlink /proc/self/ns/net';
  const { stdout } = spawnSync('nsenter', [`--net=${net}`, `--ipc=${ipc}`, `--uts=${uts}`, 'sh', '-c', script], {
    encoding: 'utf8',
  });
  assert.deepEqual(
    stdout
      .trim()
      .split('\n')
      .filter((line) => !['unknown', 'up', 'down'].includes(line)),
    [...['the-pod', '80', '1', `net:[${String(inodes.net)}]`]],
  );
  const loopback = spawnSync('nsenter', [`--net=${net}`, 'cat', '/proc/net/if_inet6', '/proc/net/fib_trie'], {
    encoding: 'utf8',
  });
  assert.match(loopback.stdout, /127\.0\.0\.1/);
  assert.equal(await inodeOf(net), inodes.net);
  assert.equal(readlinkSync('/proc/self/ns/net'), own);

  const again = { net: scratch.join('net2'), uts };
  await assert.rejects(namespaces.pinNamespaces(op, again), { kind: 'AlreadyExists' });
  await assert.rejects(namespaces.pinNamespaces(op, { net: scratch.join('net3'), sysctls: { 'net.no.such': '1' } }), {
    kind: 'NotFound',
  });
  await assert.rejects(namespaces.pinNamespaces(op, { net: scratch.join('net3'), sysctls: { 'vm.swappiness': '1' } }), {
    kind: 'InvalidArgument',
  });
  assert.deepEqual(readdirSync(scratch.path).sort(), ['ipc', 'net', 'uts']);
  for (const path of [net, ipc, uts, net]) await namespaces.unpin(op, path);
  assert.deepEqual(readdirSync(scratch.path), []);
  const fresh = await namespaces.pinNamespaces(op, { net });
  assert.notEqual(fresh.inodes.net, undefined);
  await namespaces.unpin(op, net);
  namespaces.close();
});
