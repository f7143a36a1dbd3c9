import assert from 'node:assert/strict';
import { readFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { NamespaceMode, PodSandboxState, Protocol } from '../../../src/cri/gen/api.ts';
import { isKind } from '../../../src/lib/errors.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { eventually } from './daemon-process.ts';
import { container, op, pod, RuntimeFixture, type PodOptions } from './runtime-fixture.ts';

const root = process.getuid?.() !== 0 && 'needs root';
let f: RuntimeFixture;
let leaks: LeakCheck;

before(async () => {
  if (root !== false) return;
  f = await RuntimeFixture.make();
  // The address plug-in keeps its lock and the last address that it gave: they stay, as they should.
  await f.endPod(await f.runSandbox(pod(f.root, 'first', { network: NamespaceMode.POD })));
  leaks = await LeakCheck.begin(f.root.leakRoots());
});

after(async () => {
  if (root !== false) return;
  await f[Symbol.asyncDispose]();
});

async function withPod(name: string, options: PodOptions, work: (sandboxId: string, ids: string[]) => Promise<void>) {
  const config = pod(f.root, name, options);
  const sandboxId = await f.runSandbox(config);
  const ids = [];
  for (const letter of ['a', 'b']) {
    ids.push(await f.runContainer(sandboxId, config, container(letter, ['sleep', '600'])));
  }
  try {
    await work(sandboxId, ids);
  } finally {
    await f.endPod(sandboxId);
  }
  await leaks.assertNone();
}

async function namespaceIn(id: string, kind: string): Promise<string> {
  return (await f.exec(id, 'stat', '-L', '-c', '%i', `/proc/self/ns/${kind}`)).stdout.trim();
}

const hostNamespace = async (kind: string): Promise<string> =>
  /\d+/.exec(await readlink(`/proc/self/ns/${kind}`))?.[0] ?? '';

test('the host network brings the host name and no namespace of its own', { skip: root }, async () => {
  await withPod('hostnet', {}, async (_sandboxId, [a = '']) => {
    assert.equal(await namespaceIn(a, 'net'), await hostNamespace('net'));
    assert.equal(await namespaceIn(a, 'uts'), await hostNamespace('uts'));
    assert.notEqual(await namespaceIn(a, 'ipc'), await hostNamespace('ipc'));
  });
});

test('a pod network gives an address, a host name, and a host port that answers', { skip: root }, async () => {
  const hostPort = 20000 + Math.floor(Math.random() * 10000);
  const portMappings = [{ protocol: Protocol.TCP, containerPort: 8080, hostPort, hostIp: '' }];
  const options = { network: NamespaceMode.POD, portMappings };
  await withPod('podnet', options, async (sandboxId, [a = '', b = '']) => {
    const { status } = await f.cri.podSandboxStatus(op, { podSandboxId: sandboxId, verbose: false });
    const ip = status?.network?.ip ?? '';
    assert.match(ip, /^\d+\.\d+\.\d+\.\d+$/);
    assert.match((await f.exec(a, 'ip', 'addr', 'show', 'eth0')).stdout, new RegExp(ip.replaceAll('.', '\\.')));
    assert.match((await f.exec(a, 'ip', 'link', 'show', 'lo')).stdout, /UP/);
    assert.equal((await f.exec(a, 'hostname')).stdout, 'podnet\n');
    assert.equal(await namespaceIn(a, 'net'), await namespaceIn(b, 'net'));
    await f.exec(a, 'sh', '-c', 'echo it works > /www/index.html; httpd -p 8080 -h /www');
    assert.equal((await f.exec(b, 'wget', '-q', '-O', '-', 'http://127.0.0.1:8080/')).stdout, 'it works\n');
    for (const url of [`http://${ip}:8080/`, `http://127.0.0.1:${String(hostPort)}/`]) {
      const answer = await fetch(url, { signal: AbortSignal.timeout(60_000) });
      assert.equal(await answer.text(), 'it works\n', url);
    }
    const rival = pod(f.root, 'rival', options);
    await assert.rejects(f.runSandbox(rival), (error) => isKind(error, 'AlreadyExists'));
  });
});

test('containers of a pod can share their processes, and each can have its own', { skip: root }, async () => {
  await withPod('sharedpid', { pid: NamespaceMode.POD }, async (_sandboxId, [a = '', b = '']) => {
    assert.equal(await namespaceIn(a, 'pid'), await namespaceIn(b, 'pid'));
    assert.match((await f.exec(a, 'cat', '/proc/1/comm')).stdout, /catatonit/);
  });
  await withPod('ownpid', { pid: NamespaceMode.CONTAINER }, async (_sandboxId, [a = '', b = '']) => {
    assert.notEqual(await namespaceIn(a, 'pid'), await namespaceIn(b, 'pid'));
    assert.match((await f.exec(a, 'cat', '/proc/1/comm')).stdout, /sleep/);
  });
  await withPod('hostpid', { pid: NamespaceMode.NODE }, async (_sandboxId, [a = '']) => {
    assert.equal(await namespaceIn(a, 'pid'), await hostNamespace('pid'));
  });
});

/** A start is over when the OCI runtime has let its own process go on to the command, which may come to it a moment later. */
async function becomes(pid: number | undefined, program: string): Promise<void> {
  await eventually(
    () => readFile(`/proc/${String(pid)}/comm`, 'utf8'),
    (comm) => comm === `${program}\n`,
    `process ${String(pid)} to be ${program}`,
  );
}

test(
  'what is noted of the process that holds a PID namespace is enough to end it without a search',
  { skip: root },
  async () => {
    const sandboxId = await f.runSandbox(pod(f.root, 'infra-noted', { pid: NamespaceMode.POD }));
    using db = new DatabaseSync(join(f.root.state, 'volatile.db'), { readOnly: true });
    const noted = db.prepare("SELECT data FROM ledger WHERE kind = 'task' AND key = ?").get(sandboxId);
    const { pid, conmonPid } = JSON.parse(String(noted?.['data'])) as { pid?: number; conmonPid?: number };
    await becomes(pid, 'catatonit');
    await becomes(conmonPid, 'conmon');
    await f.endPod(sandboxId);
    await leaks.assertNone();
  },
);

test('the death of the process that holds a PID namespace is the end of READY', { skip: root }, async () => {
  const config = pod(f.root, 'infra', { pid: NamespaceMode.POD });
  const sandboxId = await f.runSandbox(config);
  const id = await f.runContainer(sandboxId, config, container('a', ['sleep', '600']));
  const { info } = await f.cri.podSandboxStatus(op, { podSandboxId: sandboxId, verbose: true });
  const { pid } = JSON.parse(info['info'] ?? '{}') as { pid: number };
  await becomes(pid, 'catatonit');
  process.kill(pid, 'SIGKILL');
  assert.equal((await f.waitFor(id, ({ exitCode }) => exitCode !== 0)).exitCode, 137);
  for (let turn = 0; turn < 200; turn++) {
    const { items } = await f.cri.listPodSandbox(op, { filter: undefined });
    if (items[0]?.state === PodSandboxState.SANDBOX_NOTREADY) break;
    await new Promise((next) => setTimeout(next, 50));
  }
  const { status } = await f.cri.podSandboxStatus(op, { podSandboxId: sandboxId, verbose: false });
  assert.equal(status?.state, PodSandboxState.SANDBOX_NOTREADY);
  await f.endPod(sandboxId);
  await leaks.assertNone();
});

test('IPC: shared memory in the pod, of each container, or of the host', { skip: root }, async () => {
  await withPod('podipc', { ipc: NamespaceMode.POD }, async (_sandboxId, [a = '', b = '']) => {
    assert.equal(await namespaceIn(a, 'ipc'), await namespaceIn(b, 'ipc'));
    await f.exec(a, 'touch', '/dev/shm/seen');
    assert.equal((await f.exec(b, 'ls', '/dev/shm')).stdout, 'seen\n');
  });
  await withPod('ownipc', { ipc: NamespaceMode.CONTAINER }, async (_sandboxId, [a = '', b = '']) => {
    assert.notEqual(await namespaceIn(a, 'ipc'), await namespaceIn(b, 'ipc'));
    await f.exec(a, 'touch', '/dev/shm/unseen');
    assert.equal((await f.exec(b, 'ls', '/dev/shm')).stdout, '');
  });
  await withPod('hostipc', { ipc: NamespaceMode.NODE }, async (_sandboxId, [a = '']) => {
    assert.equal(await namespaceIn(a, 'ipc'), await hostNamespace('ipc'));
  });
});

test("sysctls are the pod's own, and one that is the host's is refused", { skip: root }, async () => {
  const sysctls = {
    'net.ipv4.ip_local_port_range': '40000 40100',
    'net/ipv4/conf/lo/arp_ignore': '2',
    'kernel.shm_rmid_forced': '1',
  };
  await withPod('sysctls', { network: NamespaceMode.POD, sysctls }, async (_sandboxId, [a = '']) => {
    assert.match((await f.exec(a, 'cat', '/proc/sys/net/ipv4/ip_local_port_range')).stdout, /40000\s+40100/);
    assert.equal((await f.exec(a, 'cat', '/proc/sys/net/ipv4/conf/lo/arp_ignore')).stdout, '2\n');
    assert.equal((await f.exec(a, 'cat', '/proc/sys/kernel/shm_rmid_forced')).stdout, '1\n');
  });
  const refused = (error: unknown): boolean => isKind(error, 'InvalidArgument');
  await assert.rejects(f.runSandbox(pod(f.root, 'x', { sysctls: { 'kernel.panic': '1' } })), refused);
  await assert.rejects(f.runSandbox(pod(f.root, 'x', { sysctls: { 'net.ipv4.tcp_syncookies': '1' } })), refused);
  await leaks.assertNone();
});

test('a container may join the processes of another one of its pod', { skip: root }, async () => {
  const target = (targetId: string): object => ({
    linux: { securityContext: { namespaceOptions: { pid: NamespaceMode.TARGET, targetId } } },
  });
  const refused = (kind: 'InvalidArgument' | 'FailedPrecondition') => (error: unknown) => isKind(error, kind);
  await withPod('stranger', {}, async (_stranger, [strange = '']) => {
    const config = pod(f.root, 'target');
    const sandboxId = await f.runSandbox(config);
    const create = (name: string, targetId: string): Promise<string> =>
      f.createContainer(sandboxId, config, container(name, ['sleep', '600'], target(targetId)));
    const app = await f.createContainer(sandboxId, config, container('app', ['sleep', '601']));
    await assert.rejects(create('early', app), refused('FailedPrecondition'), 'it does not run yet');
    await f.cri.startContainer(op, { containerId: app });
    for (const other of ['', 'no-such', strange])
      await assert.rejects(create('x', other), refused('InvalidArgument'), other);
    const debug = await create('debug', app);
    await f.cri.startContainer(op, { containerId: debug });
    assert.match((await f.exec(debug, 'cat', '/proc/1/cmdline')).stdout, /601/);
    assert.equal(await namespaceIn(debug, 'pid'), await namespaceIn(app, 'pid'));
    await f.endPod(sandboxId);
  });
});
