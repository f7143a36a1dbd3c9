import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { access, mkdir, readFile, rm, rmdir, symlink, unlink, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { PodSandboxConfig } from '../../../src/cri/gen/api.ts';
import type { DoctorReport, Finding } from '../../../src/lib/doctor.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import { execFile } from '../../../src/linux/exec.ts';
import { newSandboxId } from '../../../src/lib/ids.ts';
import { Cgroups, detectCgroups } from '../../../src/linux/cgroups.ts';
import { readMountinfo } from '../../../src/linux/mountinfo.ts';
import { listPids, readCmdline } from '../../../src/linux/procfs.ts';
import { bridgeName } from '../../../src/runtime/network/default-network.ts';
import { Gantryd, op, podOf, eventually } from '../../support/gantryd.ts';
import { LeakCheck } from '../../support/leak-check.ts';

const needsRoot = process.getuid?.() !== 0 && 'needs root';

async function isThere(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  );
}

async function run(file: string, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await execFile(op, file, args);
  assert.equal(code, 0, `${file} ${args.join(' ')}: ${stderr}`);
  return stdout;
}

describe('gantry doctor', { skip: needsRoot }, () => {
  let daemon: Gantryd;
  let leaks: LeakCheck;
  before(async () => {
    daemon = await Gantryd.withImage();
    leaks = await LeakCheck.begin(daemon.root.leakRoots());
  });
  after(async () => {
    await daemon[Symbol.asyncDispose]();
  });

  const doctor = async (...args: string[]): Promise<{ code: number; report: DoctorReport }> => {
    const { code, stdout, stderr } = await daemon.cli(['doctor', '-o', 'json', ...args]);
    assert.equal(stderr, '');
    return { code, report: JSON.parse(stdout) as DoctorReport };
  };
  const problems = ({ findings }: DoctorReport): Finding[] => findings.filter(({ problem }) => problem !== 'foreign');
  const cgroupFolders = async (path: string): Promise<string[]> => {
    const { v1, unified } = await detectCgroups();
    return [...v1, ...(unified === undefined ? [] : [unified])].map(({ mountPoint }) => join(mountPoint, path));
  };

  test('a Gantry with pods that run is healthy', async () => {
    await daemon.apply(podOf('well', [{}]));
    await daemon.ready('well');
    const { code, report } = await doctor();
    assert.deepEqual(problems(report), []);
    assert.equal(code, 0);
    assert.equal(report.instanceId, daemon.root.instance);
    const text = await daemon.gantry('doctor');
    assert.match(text, /nothing of it is left over and nothing is missing/);
  });

  test('each kind of orphan is listed and, with --fix, removed; others are left alone', async (t) => {
    const { root } = daemon;
    const { instance } = root;
    const id = newSandboxId();
    const planted: { kind: string; key: string; readonly gone: () => Promise<boolean> }[] = [];
    const plant = (kind: string, key: string, gone = async (): Promise<boolean> => !(await isThere(key))): void => {
      planted.push({ kind, key, gone });
    };

    // Ours: folders and files.
    const bundle = join(root.state, 'containers', id);
    const sandboxDir = join(root.state, 'sandboxes', id);
    const snapshot = join(root.data, 'snapshots', id);
    await mkdir(join(bundle, 'rootfs'), { recursive: true });
    await writeFile(join(bundle, 'something'), 'x');
    plant('bundle', bundle);
    await mkdir(join(sandboxDir, 'shm'), { recursive: true });
    plant('directory', sandboxDir);
    await mkdir(join(snapshot, 'upper/deep'), { recursive: true });
    await writeFile(join(snapshot, 'upper/deep/file'), 'x');
    plant('snapshot', id, async () => !(await isThere(snapshot)));
    for (const [kind, path] of [
      ['exit-file', join(root.data, 'exits', id)],
      ['exit-file', join(root.state, 'exits', id)],
      ['staging', join(root.data, 'image', 'ingest', 'blob-left')],
      ['socket', join(root.state, 'socks', id.slice(0, 32))],
    ] as const) {
      await writeFile(path, '0');
      plant(kind, path);
    }
    for (const path of [join(root.data, 'layers', '.staging-abc'), join(root.data, 'snapshots', '.staging-abc')]) {
      await mkdir(join(path, 'fs'), { recursive: true });
      plant('staging', path);
    }
    const ociState = join(root.state, `oci-${await ociName()}`, id);
    await mkdir(ociState, { recursive: true });
    await writeFile(join(ociState, 'status'), 'torn');
    plant('oci-state', ociState);

    // Ours: mounts.
    await run('mount', '-t', 'tmpfs', 'planted', join(sandboxDir, 'shm'));
    plant('tmpfs', join(sandboxDir, 'shm'), async () => !(await isMounted(join(sandboxDir, 'shm'))));
    for (const name of ['work', 'lower']) await mkdir(join(snapshot, name));
    const layers = [`lowerdir=${snapshot}/lower`, `upperdir=${snapshot}/upper`, `workdir=${snapshot}/work`].join(',');
    await run('mount', '-t', 'overlay', 'planted', '-o', layers, join(bundle, 'rootfs'));
    plant('rootfs', join(bundle, 'rootfs'), async () => !(await isMounted(join(bundle, 'rootfs'))));
    const netns = join(root.netnsDir, `gantry-${instance}-${id.slice(0, 16)}`);
    await pinNetns(netns);
    plant('netns', netns);

    // Ours: cgroups, with a process; a monitor.
    const cgroup = `${root.cgroupParent}/pod${id}`;
    const cgroups = new Cgroups({ clock: systemClock, host: await detectCgroups() });
    await cgroups.create(cgroup);
    const sleeper = spawn('sleep', ['1000'], { stdio: 'ignore' });
    const slept = once(sleeper, 'exit');
    await cgroups.moveProcess(cgroup, sleeper.pid ?? 0);
    plant('cgroup', cgroup, async () => !(await cgroups.exists(cgroup)));
    const monitorBundle = join(root.state, 'containers', newSandboxId());
    const monitor = await pretend(join(root.dir, 'conmon'), '--bundle', monitorBundle, monitorBundle.slice(-64));
    const monitored = once(monitor, 'exit');
    plant('monitor', monitorBundle, () => Promise.resolve(monitor.signalCode === 'SIGKILL'));

    // Ours: an address, a rule, a log folder, a pod's folder.
    const address = join(root.data, 'cni', 'ipam', `gantry-${instance}`, '10.99.99.99');
    await mkdir(dirname(address), { recursive: true });
    await writeFile(address, `${id}\r\neth0`);
    plant('cni', address);
    const rule = ['-s', '10.99.99.0/24', '-m', 'comment', '--comment', `gantry ${instance}`, '-j', 'ACCEPT'];
    await run('iptables', '-w', '-t', 'nat', '-A', 'POSTROUTING', ...rule);
    plant('iptables-rule', `-t nat POSTROUTING ${rule.join(' ')}`, async () => {
      return (await execFile(op, 'iptables', ['-w', '-t', 'nat', '-C', 'POSTROUTING', ...rule])).code === 1;
    });
    const wellUid = (await daemon.ready('well')).metadata.uid;
    const podFolder = join(root.podsDir, 'gone-uid');
    const volume = join(podFolder, 'volumes/kubernetes.io~empty-dir/data');
    await mkdir(volume, { recursive: true });
    await writeFile(
      join(podFolder, 'pod.json'),
      JSON.stringify({ uid: 'gone-uid', namespace: 'default', name: 'ghost' }),
    );
    await writeFile(join(volume, 'file'), 'x');
    plant('pod-folder', podFolder);

    // Others'.
    const otherNetns = [join(root.netnsDir, 'cni-0123'), join(root.netnsDir, 'gantry-other1-0123456789abcdef')];
    for (const path of otherNetns) await pinNetns(path);
    const otherRule = ['-s', '10.99.98.0/24', '-m', 'comment', '--comment', 'gantry other1', '-j', 'ACCEPT'];
    await run('iptables', '-w', '-t', 'nat', '-A', 'POSTROUTING', ...otherRule);
    const otherBridge = `br${instance}`;
    await run('ip', 'link', 'add', otherBridge, 'type', 'bridge');
    const otherGroup = (await cgroupFolders(`${root.cgroupParent}/somebody`))[0] ?? '';
    await mkdir(otherGroup);
    const otherPod = join(root.podsDir, 'kubelets-pod');
    await mkdir(join(otherPod, 'volumes'), { recursive: true });
    const otherLogs = join(root.logRoot, 'ns_pod_uid-of-others');
    await mkdir(otherLogs);
    const otherData = join(root.cniDataDir, 'their-net');
    await mkdir(otherData);
    await writeFile(join(otherData, '10.99.97.2'), 'somebody\r\neth0');
    const net = { type: 'bridge', bridge: otherBridge, ipam: { type: 'host-local', dataDir: root.cniDataDir } };
    const conf = join(root.cniConfDir, '10-theirs.conflist');
    await writeFile(conf, JSON.stringify({ cniVersion: '1.0.0', name: 'their-net', plugins: [net] }));
    const otherMonitor = await pretend(join(root.dir, 'conmon'), '--bundle', '/nowhere/userdata', 'abc');
    const otherEnded = once(otherMonitor, 'exit');
    t.after(async () => {
      for (const path of otherNetns) {
        await execFile(op, 'umount', [path]);
        await unlink(path).catch(() => undefined);
      }
      await execFile(op, 'iptables', ['-w', '-t', 'nat', '-D', 'POSTROUTING', ...otherRule]);
      await execFile(op, 'ip', ['link', 'delete', otherBridge]);
      otherMonitor.kill('SIGKILL');
      sleeper.kill('SIGKILL');
      monitor.kill('SIGKILL');
      await Promise.all([otherEnded, slept, monitored]);
      await rmdir(otherGroup);
      await rmdir(join(otherPod, 'volumes'));
      await rmdir(otherPod);
      await rmdir(otherLogs);
      await unlink(conf);
      await rm(otherData, { recursive: true });
    });

    const looked = await doctor();
    assert.equal(looked.code, 1);
    const listed = problems(looked.report);
    for (const { kind, key } of planted) {
      const finding = listed.find((each) => each.kind === kind && each.key === key);
      assert.equal(finding?.problem, 'orphan', `${kind} ${key} in ${JSON.stringify(listed, undefined, 1)}`);
      assert.ok(finding.action);
    }
    assert.equal(listed.length, planted.length, JSON.stringify(listed, undefined, 1));
    const foreign = looked.report.findings.filter(({ problem }) => problem === 'foreign').map(({ key }) => key);
    const others = [
      ...otherNetns,
      `-t nat POSTROUTING ${otherRule.join(' ')}`,
      otherBridge,
      `${root.cgroupParent}/somebody`,
      otherPod,
      otherLogs,
      otherData,
      `pid ${String(otherMonitor.pid)}`,
    ];
    for (const key of others) assert.ok(foreign.includes(key), `${key} among ${foreign.join('\n')}`);
    for (const { key, gone } of planted) assert.equal(await gone(), false, `looking must not touch ${key}`);
    // The same over the CRI socket.
    const overCri = await doctor('--runtime-endpoint', `unix://${root.criSocket}`);
    assert.deepEqual(problems(overCri.report), listed);

    const fixed = await doctor('--fix');
    assert.deepEqual(
      problems(fixed.report).filter(({ outcome }) => outcome !== 'fixed'),
      [],
    );
    assert.equal(fixed.code, 0);
    for (const { kind, key, gone } of planted) assert.equal(await gone(), true, `${kind} ${key} is still there`);
    await slept;
    for (const path of [...otherNetns, otherGroup, otherPod, otherLogs, `/sys/class/net/${otherBridge}`]) {
      assert.ok(await isThere(path), `${path} is not ours and should be there`);
    }
    assert.equal(otherMonitor.exitCode ?? otherMonitor.signalCode, null);
    await run('iptables', '-w', '-t', 'nat', '-C', 'POSTROUTING', ...otherRule);
    assert.equal((await daemon.ready('well')).metadata.uid, wellUid);
    assert.deepEqual(problems((await doctor()).report), []);
  });

  for (const place of ['share', 'rootfs']) {
    test(`an orphan with a mount of somebody else on its ${place} is blocked, not promised and not removed`, async (t) => {
      const bundle = join(daemon.root.state, 'containers', newSandboxId());
      const share = join(bundle, place);
      await mkdir(share, { recursive: true });
      await run('mount', '-t', 'tmpfs', 'precious', share);
      await writeFile(join(share, 'data'), 'precious');
      t.after(() => execFile(op, 'umount', [share]));
      const before = problems((await doctor()).report);
      assert.deepEqual(
        before.map(({ problem, key }) => [problem, key]),
        [['blocked', bundle]],
      );
      assert.match(before[0]?.message ?? '', new RegExp(`on ${share} is tmpfs from precious`));
      assert.doesNotMatch((await daemon.cli(['doctor'])).stdout, /takes care/);
      const { code, report } = await doctor('--fix');
      assert.equal(code, 1);
      const finding = problems(report).find(({ key }) => key === bundle);
      assert.equal(finding?.outcome, 'failed');
      assert.match(finding.error ?? '', new RegExp(share));
      assert.equal(await readFile(join(share, 'data'), 'utf8'), 'precious');
      await run('umount', share);
      assert.equal((await doctor('--fix')).code, 0);
      assert.equal(await isThere(bundle), false);
    });
  }

  test('the monitor of a sandbox that was killed is missing, as that of a container is', async () => {
    await daemon.apply(podOf('sharing', [{}], { shareProcessNamespace: true }), '--wait');
    assert.deepEqual(problems((await doctor()).report), []);
    const sandboxes = join(daemon.root.state, 'sandboxes');
    const monitors: { pid: number; bundle: string }[] = [];
    for (const pid of await listPids()) {
      const argv = (await readCmdline(pid)) ?? [];
      const bundle = argv[argv.indexOf('--bundle') + 1] ?? '';
      if (bundle.startsWith(`${sandboxes}/`)) monitors.push({ pid, bundle });
    }
    const [monitor] = monitors;
    assert.ok(monitor);
    assert.equal(monitors.length, 1);
    process.kill(monitor.pid, 'SIGKILL');
    const missing = problems((await doctor()).report);
    assert.deepEqual(
      missing.map(({ problem, kind, key }) => [problem, kind, key]),
      [['missing', 'monitor', monitor.bundle]],
    );
    assert.match(missing[0]?.message ?? '', /nothing needs to be done/);
    await daemon.gantry('delete', 'pod', 'sharing');
    assert.deepEqual(problems((await doctor()).report), []);
  });

  test('the log directory of a sandbox that was made through CRI is said to be of that one', async () => {
    const logDirectory = join(daemon.root.logRoot, 'by-hand');
    const config = PodSandboxConfig.fromPartial({
      metadata: { name: 'direct', uid: 'u', namespace: 'default' },
      logDirectory,
    });
    const { podSandboxId } = await daemon.cri.runtime.runPodSandbox(op, { config, runtimeHandler: '' });
    await mkdir(logDirectory, { recursive: true });
    const { report } = await doctor();
    assert.deepEqual(problems(report), []);
    const message = report.findings.find(({ key }) => key === logDirectory)?.message ?? '';
    assert.match(message, new RegExp(`^of sandbox ${podSandboxId.slice(0, 13)} \\(direct\\)`));
    await daemon.cri.runtime.stopPodSandbox(op, { podSandboxId });
    await daemon.cri.runtime.removePodSandbox(op, { podSandboxId });
    await rm(logDirectory, { recursive: true });
  });

  test('what a pod needs and has lost is missing; a rule is put back', async () => {
    const rules = (await run('iptables', '-w', '-t', 'nat', '-S')).split('\n');
    const rule = rules.find((line) => line.includes(`gantry ${daemon.root.instance}`));
    assert.ok(rule, 'the default network has a masquerade rule');
    const words = (rule.match(/"[^"]*"|\S+/g) ?? []).map((word) => word.replaceAll('"', ''));
    await run('iptables', '-w', '-t', 'nat', '-D', ...words.slice(1));
    const { code, report } = await doctor();
    assert.equal(code, 1);
    assert.deepEqual(
      problems(report).map(({ problem, kind }) => [problem, kind]),
      [['missing', 'iptables-rule']],
    );
    assert.equal((await doctor('--fix')).code, 0);
    await run('iptables', '-w', '-t', 'nat', '-C', ...words.slice(1));
    assert.ok(await isThere(`/sys/class/net/${bridgeName(daemon.root.instance)}`));
  });

  test('explain container tells of every run, by name, by id and over the CRI socket', async () => {
    await daemon.apply(podOf('failing', [{ script: 'sleep 1; exit 7' }], { restartPolicy: 'OnFailure' }));
    const cri = ['--runtime-endpoint', `unix://${daemon.root.criSocket}`];
    const story = await eventually(
      () => daemon.cli(['explain', 'container', 'failing/main']),
      ({ stdout }) => /attempt [1-9]\d* +exited +exit code 7 \(Error\)[^]*Still pending:\n.*CrashLoop/.test(stdout),
      'a second run',
    );
    assert.match(story.stdout, /ended with code 7[^]*ended with code 7/);
    assert.match(await daemon.gantry('explain', 'container', 'failing/main', ...cri), /exit code 7 \(Error\)/);
    assert.match(await daemon.gantry('explain', 'pod', 'failing', ...cri), /sandbox failing[^]*container main/);
    const [id] = /\b[0-9a-f]{13}\b/.exec(await daemon.gantry('explain', 'container', 'well/main')) ?? [];
    assert.match(await daemon.gantry('explain', 'container', id ?? ''), /container main/);
    const none = await daemon.cli(['explain', 'container', 'nobody', ...cri]);
    assert.equal(none.code, 1);
    assert.match(none.stderr, /container "nobody" not found/);
    await daemon.gantry('delete', 'pod', 'failing');
    assert.match(await daemon.gantry('explain', 'container', 'failing/main', ...cri), /Nothing is pending/);
  });

  test('nothing is left in the end', async () => {
    await daemon.gantry('delete', 'pod', 'well');
    assert.deepEqual(problems((await doctor()).report), []);
    await leaks.assertNone();
  });

  async function ociName(): Promise<string> {
    for (const name of ['crun', 'runc']) if (await isThere(join(daemon.root.state, `oci-${name}`))) return name;
    return 'crun';
  }
});

async function isMounted(path: string): Promise<boolean> {
  return (await readMountinfo()).some(({ mountPoint }) => mountPoint === path);
}

/** A namespace of its own, kept by a bind mount. */
async function pinNetns(path: string): Promise<void> {
  await writeFile(path, '');
  await run('unshare', '--net', 'mount', '--bind', '/proc/self/ns/net', path);
}

/** A process that looks like another program, whose name is the path's: a shell that waits for a line that never comes. */
async function pretend(path: string, ...args: string[]): Promise<ChildProcess> {
  await symlink('/bin/sh', path).catch(unlessThere);
  return spawn(path, ['-c', 'read line', ...args], { argv0: basename(path), stdio: ['pipe', 'ignore', 'ignore'] });
}

function unlessThere(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EEXIST') throw error;
}
