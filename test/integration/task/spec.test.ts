import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { buildInfraSpec, prepareInfraRootfs } from '../../../src/runtime/oci/build-infra-spec.ts';
import { hostDevices } from '../../../src/runtime/oci/host-devices.ts';
import type { ContainerSpecInput } from '../../../src/runtime/oci/container-spec-input.ts';
import { SeccompProfiles } from '../../../src/runtime/oci/seccomp.ts';
import { readUserFiles, resolveUser } from '../../../src/runtime/oci/user.ts';
import { needsRoot, op, TaskFixture, until } from './task-fixture.ts';

async function outputOf(fixture: TaskFixture, script: string, spec: Partial<ContainerSpecInput> = {}): Promise<string> {
  const task = await fixture.shell(script, { spec });
  await fixture.exit(task.id);
  return await fixture.log(task.id);
}

await test('specifications, as the kernel sees them', needsRoot, async (t) => {
  await using fixture = await TaskFixture.make();
  const run = (script: string, spec?: Partial<ContainerSpecInput>): Promise<string> => outputOf(fixture, script, spec);

  await t.test('user, groups, home and working folder', async () => {
    const rootfs = join(fixture.dir, 'rootfs');
    await writeFile(join(rootfs, 'etc/passwd'), 'root:x:0:0::/root:/bin/sh\nweb:x:33:34::/data:/bin/sh\n');
    await writeFile(join(rootfs, 'etc/group'), 'root:x:0:\nweb:x:34:\nstaff:x:50:web\n');
    const user = resolveUser(await readUserFiles(rootfs), { username: 'web', supplementalGroups: [77] });
    assert.equal(
      await run('id -u; id -g; id -G; echo $HOME; pwd', { user, workingDir: '/data' }),
      '33\n34\n34 50 77\n/data\n/data\n',
    );
  });

  await t.test('capabilities, no new privileges and seccomp', async () => {
    const profiles = await SeccompProfiles.load();
    const script = 'grep -E "^(CapBnd|CapEff|NoNewPrivs|Seccomp):" /proc/self/status; unshare -m true && echo unshared';
    const strict = { dropCapabilities: ['ALL'], addCapabilities: ['CHOWN'], noNewPrivileges: true };
    const confined = await run(script, { ...strict, seccomp: profiles.forCapabilities(['CAP_CHOWN']) });
    assert.match(confined, /CapEff:\t0000000000000001\n/);
    assert.match(confined, /NoNewPrivs:\t1\nSeccomp:\t2\n/);
    assert.doesNotMatch(confined, /\nunshared/);
    assert.match(await run(script), /NoNewPrivs:\t0\nSeccomp:\t0\n/);
  });

  await t.test('masked and read-only paths, and neither for a privileged one', async () => {
    const script =
      'wc -c </proc/timer_list; (echo 1 >/proc/sys/kernel/shm_rmid_forced) 2>/dev/null && echo rw; [ -e /dev/net/tun ] || [ -e /dev/fuse ] && echo devices; ' +
      'grep -c " /sys .*rw" /proc/self/mountinfo';
    const plain = (await run(script)).trim().split('\n');
    assert.equal(plain[0], '0');
    assert.equal(plain.includes('rw'), false);
    assert.equal(plain.includes('devices'), false);
    const privileged = (await run(script, { privileged: true, hostDevices: await hostDevices() })).trim().split('\n');
    assert.ok(privileged.includes('rw'));
    if (existsSync('/dev/fuse') || existsSync('/dev/net/tun')) assert.ok(privileged.includes('devices'));
  });

  await t.test('root read-only or not, mounts read-only or not, files of the pod', async () => {
    const data = join(fixture.dir, 'volume');
    await mkdir(data);
    await writeFile(join(fixture.dir, 'hosts'), '10.0.0.9 me\n');
    const script =
      'touch /x 2>/dev/null && echo root; touch /data/x 2>/dev/null && echo data; cat /etc/hosts; rm -f /x';
    await writeFile(join(fixture.dir, 'rootfs/etc/hosts'), '');
    const hostsPath = join(fixture.dir, 'hosts');
    const mount = { containerPath: '/data', hostPath: data };
    assert.equal(await run(script, { hostsPath, mounts: [mount] }), 'data\n10.0.0.9 me\n');
    const own = { readOnlyRootfs: false, hostsPath, mounts: [{ ...mount, readOnly: true }] };
    assert.equal(await run(script, own), 'root\n10.0.0.9 me\n');
  });

  await t.test('limits', async () => {
    const resources = {
      memoryLimitBytes: 64 << 20,
      cpuShares: 512,
      cpuQuotaUs: 50_000,
      cpuPeriodUs: 100_000,
    };
    const task = await fixture.shell('sleep 1000', { spec: { resources } });
    const text = execFileSync(
      'sh',
      [
        '-c',
        `cat $(find /sys/fs/cgroup -path '*${task.cgroupPath}/*' -name memory.max -o -path '*${task.cgroupPath}/*' -name memory.limit_in_bytes)`,
      ],
      {
        encoding: 'utf8',
      },
    );
    assert.match(text, /^67108864$/m);
    await fixture.service.delete(op, task, { force: true });
  });

  await t.test('sysctls and host name in namespaces of its own', async () => {
    const sysctls = { 'net.ipv4.ip_unprivileged_port_start': '0', 'kernel.shm_rmid_forced': '1' };
    const script =
      'hostname; echo $HOSTNAME; cat /proc/sys/net/ipv4/ip_unprivileged_port_start /proc/sys/kernel/shm_rmid_forced';
    assert.equal(await run(script, { hostname: 'my-pod', sysctls }), 'my-pod\nmy-pod\n0\n1\n');
  });

  await t.test('what a privileged container mounts below a shared mount is seen outside, and only then', async () => {
    const shared = join(fixture.dir, 'shared');
    await mkdir(shared);
    execFileSync('mount', ['--bind', shared, shared]);
    execFileSync('mount', ['--make-shared', shared]);
    try {
      const script = 'mkdir -p /data/sub; mount -t tmpfs none /data/sub && touch /data/sub/seen; sleep 1000';
      for (const [propagation, seen] of [
        ['rshared', ['seen']],
        ['rslave', []],
      ] as const) {
        const mounts = [{ containerPath: '/data', hostPath: shared, propagation }];
        const task = await fixture.shell(script, { spec: { privileged: true, mounts } });
        await fixture.running(task, 'sleep 1000');
        assert.deepEqual(await readdir(join(shared, 'sub')), seen);
        await fixture.service.delete(op, task, { force: true });
        if (propagation === 'rshared') execFileSync('umount', [join(shared, 'sub')]);
      }
    } finally {
      execFileSync('umount', ['--lazy', shared]);
    }
  });

  await t.test('a terminal', async () => {
    const task = await fixture.shell('[ -t 0 ] && [ -t 1 ] && echo tty', {
      request: { terminal: true },
      spec: { terminal: true },
    });
    assert.equal((await fixture.exit(task.id)).kind, 'exited');
    assert.match(await fixture.log(task.id), /tty/);
  });
});

await test('a shared PID namespace: held by catatonit, its end is the end of all in it', needsRoot, async () => {
  await using fixture = await TaskFixture.make();
  const rootfs = join(fixture.dir, 'infra-rootfs');
  await prepareInfraRootfs(rootfs);
  const request = await fixture.request({ argv: ['true'] });
  const made = { kind: 'new' } as const;
  const infra = await fixture.createRequest({
    ...request,
    logPath: undefined,
    oci: buildInfraSpec({
      host: fixture.host,
      rootfs,
      catatonit: '/usr/bin/catatonit',
      namespaces: { ipc: made, uts: made, network: made },
      cgroupPath: request.cgroupPath,
    }),
  });
  fixture.arm(infra);
  await fixture.service.start(op, infra);
  const joined = { kind: 'path', path: `/proc/${infra.pid}/ns/pid` } as const;
  const namespaces = { pid: joined, ipc: made, uts: made, network: made };
  const first = await fixture.shell('sleep 1234', { spec: { namespaces } });
  await fixture.running(first, 'sleep 1234');
  const second = await fixture.shell('ps', { spec: { namespaces } });
  assert.equal((await fixture.exit(second.id)).kind, 'exited');
  const seen = await fixture.log(second.id);
  assert.match(seen, /catatonit -P/);
  assert.match(seen, /sleep 1234/);
  await fixture.service.signal(op, infra, 9);
  const ends = [await fixture.exit(infra.id), await fixture.exit(first.id)];
  assert.deepEqual(
    ends.map((status) => status.kind === 'exited' && status.code),
    [137, 137],
  );
  await until('the files', () => fixture.service.readExit(infra.id));
});
