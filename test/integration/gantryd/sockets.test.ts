import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { access, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { ImageStatusRequest } from '../../../src/cri/gen/api.ts';
import { execFile } from '../../../src/linux/exec.ts';
import { isKind } from '../../../src/lib/errors.ts';
import { Gantryd, IMAGE, op, podOf } from '../../support/gantryd.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { tarOf } from '../../support/tar.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const CRICTL = '/usr/local/bin/crictl';
const noCrictl = await access(CRICTL).then(
  () => false as const,
  () => `${CRICTL} is not there`,
);

/** Sends it and hangs up when the other side does, or after a while. */
async function throwAt(socketPath: string, data: Buffer | string): Promise<void> {
  await new Promise<void>((resolve) => {
    const socket = connect(socketPath, () => socket.write(data));
    socket.on('data', () => undefined).on('error', () => undefined);
    socket.on('close', () => resolve());
    setTimeout(() => socket.destroy(), 300).unref();
  });
}

async function ask(
  socketPath: string,
  method: string,
  path: string,
  body = '',
  headers: Record<string, string> = {},
): Promise<{ status: number; text: string }> {
  return await new Promise((resolve, reject) => {
    const outgoing = request({ socketPath, method, path, agent: false, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
    });
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}

describe('the two sockets', { skip }, () => {
  let daemon: Gantryd;
  let leaks: LeakCheck;

  before(async () => {
    daemon = await Gantryd.withImage();
    leaks = await LeakCheck.begin(daemon.root.leakRoots([{ path: daemon.root.logRoot }]));
  });
  after(async () => {
    await daemon[Symbol.asyncDispose]();
  });

  test('garbage on either socket harms nobody', async () => {
    const { pid } = daemon;
    await daemon.apply(podOf('calm', [{}]), '--wait');
    const preface = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';
    const things = [
      Buffer.alloc(70_000, 0xff),
      randomBytes(4096),
      'GET / HTTP/1.1\r\n\r\n',
      'GET /api/v1/pods HTTP/9.9\r\nhost: x\r\n\r\n',
      `${preface}${'\0'.repeat(100)}`,
      Buffer.concat([Buffer.from(preface), randomBytes(1000)]),
      'POST /api/v1/namespaces/default/pods HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999\r\n\r\n{',
      `GET /${'a'.repeat(100_000)} HTTP/1.1\r\n\r\n`,
    ];
    for (const socket of [daemon.root.criSocket, daemon.root.apiSocket]) {
      await Promise.all(things.map((thing) => throwAt(socket, thing)));
    }
    assert.equal(daemon.pid, pid);
    assert.equal((await daemon.cri.runtime.version(op, { version: '' })).runtimeName, 'gantry');
    assert.equal(await daemon.gantry('exec', 'calm', '--', 'echo', 'calm'), 'calm\n');
    assert.ok(!(await daemon.log()).includes('unhandled'));
    await daemon.gantry('delete', 'pod', 'calm');
  });

  test('requests to the API that are wrong get a Status that says how', async () => {
    const pods = '/api/v1/namespaces/default/pods';
    const json = { 'content-type': 'application/json' };
    const wrong: readonly (readonly [method: string, path: string, body: string, status: number])[] = [
      ['POST', pods, 'not json', 400],
      ['POST', pods, '[]', 400],
      ['POST', pods, '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}', 400],
      ['POST', pods, '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"containers":[]}}', 422],
      ['GET', `${pods}/nobody`, '', 404],
      ['GET', '/api/v1/potatoes', '', 404],
      ['DELETE', `${pods}/nobody`, '', 404],
      ['PUT', `${pods}/nobody`, '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"other"}}', 422],
      ['GET', `${pods}?watch=1&resourceVersion=bad`, '', 400],
      ['GET', `${pods}/nobody/log`, '', 404],
    ];
    for (const [method, path, body, status] of wrong) {
      const answer = await ask(daemon.root.apiSocket, method, path, body, json);
      assert.equal(answer.status, status, `${method} ${path}: ${answer.text}`);
      assert.equal((JSON.parse(answer.text) as { kind: string }).kind, 'Status');
    }
  });

  const ATTACHED = { tty: false, stdin: false, stdout: true, stderr: true };

  test('CRI: unknown ids and calls in the wrong order', async () => {
    const { runtime, image } = daemon.cri;
    const fails = async (
      kind: 'NotFound' | 'FailedPrecondition' | 'InvalidArgument',
      call: Promise<unknown>,
    ): Promise<void> => {
      await assert.rejects(call, (error) => isKind(error, kind) || assert.fail(`${kind}, not ${String(error)}`));
    };
    const none = 'f'.repeat(64);
    await fails('NotFound', runtime.podSandboxStatus(op, { podSandboxId: none, verbose: false }));
    await fails('NotFound', runtime.containerStatus(op, { containerId: none, verbose: false }));
    await fails('NotFound', runtime.startContainer(op, { containerId: none }));
    await fails('NotFound', runtime.execSync(op, { containerId: none, cmd: ['true'], timeout: 0n }));
    await fails('InvalidArgument', runtime.execSync(op, { containerId: none, cmd: ['ls', 'a\0'], timeout: 0n }));
    await fails('InvalidArgument', runtime.exec(op, { ...ATTACHED, containerId: none, cmd: ['\0'] }));
    // Nothing of it is left: that is what was asked for.
    await runtime.stopPodSandbox(op, { podSandboxId: none });
    await runtime.removePodSandbox(op, { podSandboxId: none });
    await runtime.stopContainer(op, { containerId: none, timeout: 1n });
    await runtime.removeContainer(op, { containerId: none });
    const unknownImage = ImageStatusRequest.fromPartial({ image: { image: 'no/such:1' } });
    assert.equal((await image.imageStatus(op, unknownImage)).image, undefined);
    await fails('InvalidArgument', runtime.runPodSandbox(op, { config: undefined, runtimeHandler: '' }));
    const { podSandboxId } = await runtime.runPodSandbox(op, { config: sandbox('order'), runtimeHandler: '' });
    await runtime.stopPodSandbox(op, { podSandboxId });
    await runtime.stopPodSandbox(op, { podSandboxId });
    await runtime.removePodSandbox(op, { podSandboxId });
    await runtime.removePodSandbox(op, { podSandboxId });
    await leaks.assertNone();
  });

  function sandbox(name: string): NonNullable<Parameters<typeof daemon.cri.runtime.runPodSandbox>[1]['config']> {
    return {
      metadata: { name, namespace: 'default', uid: `uid-${name}`, attempt: 0 },
      hostname: name,
      logDirectory: join(daemon.root.logRoot, name),
      dnsConfig: undefined,
      portMappings: [],
      labels: {},
      annotations: {},
      linux: undefined,
      windows: undefined,
    };
  }

  test('crictl runs, lists, executes in, stops and removes a pod and its container', { skip: noCrictl }, async () => {
    const crictl = async (...args: readonly string[]): Promise<string> => {
      const endpoint = `unix://${daemon.root.criSocket}`;
      const { code, stdout, stderr } = await execFile(op, CRICTL, [
        ...['--timeout', '120s', '--runtime-endpoint', endpoint, '--image-endpoint', endpoint],
        ...args,
      ]);
      assert.equal(code, 0, `crictl ${args.join(' ')}: ${stdout}${stderr}`);
      return stdout.trim();
    };
    const podFile = join(daemon.root.dir, 'pod.json');
    const containerFile = join(daemon.root.dir, 'container.json');
    const metadata = { name: 'by-crictl', namespace: 'default', uid: 'uid-crictl', attempt: 1 };
    await writeFile(
      podFile,
      JSON.stringify({
        metadata,
        hostname: 'by-crictl',
        log_directory: join(daemon.root.logRoot, 'crictl'),
        linux: {},
      }),
    );
    await writeFile(
      containerFile,
      JSON.stringify({
        metadata: { name: 'main', attempt: 0 },
        image: { image: IMAGE },
        command: ['/bin/sh', '-c', 'echo ready; trap "exit 6" TERM; while :; do sleep 1 & wait $!; done'],
        log_path: 'main.log',
        linux: {},
      }),
    );
    assert.match(await crictl('version'), /RuntimeName: +gantry/);
    assert.match(await crictl('info'), /"RuntimeReady"/);
    assert.match(await crictl('images'), /localhost\/gantry\/busybox +1/);
    const pod = await crictl('runp', podFile);
    const container = await crictl('create', pod, containerFile, podFile);
    assert.equal(await crictl('start', container), container);
    assert.match(await crictl('pods'), /by-crictl/);
    assert.match(await crictl('ps'), /main/);
    assert.equal(await crictl('exec', '-s', container, 'hostname'), 'by-crictl');
    assert.match(await crictl('inspect', container), /"CONTAINER_RUNNING"/);
    assert.match(await crictl('inspectp', pod), /"SANDBOX_READY"/);
    assert.match(await crictl('logs', container), /ready/);
    await crictl('stop', '--timeout', '30', container);
    assert.match(await crictl('inspect', container), /"exitCode": 6/);
    assert.match(await crictl('ps', '-a'), /Exited/);
    await crictl('rm', container);
    await crictl('stopp', pod);
    assert.match(await crictl('pods'), /NotReady/);
    await crictl('rmp', pod);
    assert.ok(!(await crictl('pods')).includes('by-crictl'));
    await leaks.assertNone({
      only: ['processes', 'mounts', 'network namespaces', 'CNI addresses', 'links', 'iptables rules', 'cgroups'],
    });
  });
});

describe('--runtime-only', { skip }, () => {
  test('serves CRI and no API, has no network of its own, and says so', async () => {
    await using daemon = await Gantryd.make({ flags: ['--runtime-only'] });
    await daemon.start({ agent: false });
    const { status } = await daemon.cri.runtime.status(op, { verbose: false });
    const conditions = new Map(status?.conditions.map((condition) => [condition.type, condition]));
    assert.equal(conditions.get('RuntimeReady')?.status, true);
    assert.equal(conditions.get('NetworkReady')?.status, false);
    assert.match(conditions.get('NetworkReady')?.message ?? '', /cni|network/i);
    assert.equal((await daemon.cli(['get', 'pods'])).code, 1);
    const tar = join(daemon.root.dir, 'rootfs.tar');
    await writeFile(tar, await tarOf({ file: 'content' }));
    const settings = ['--entrypoint', '/file', '--workdir', '/w', '--env', 'A=1'];
    const over = ['--runtime-endpoint', `unix://${daemon.root.criSocket}`];
    const name = 'localhost/imported:1';
    assert.equal(await daemon.gantry('image', 'import', '--rootfs', tar, ...settings, ...over, name), `${name}\n`);
    const request = ImageStatusRequest.fromPartial({ image: { image: name }, verbose: true });
    const { image, info } = await daemon.cri.image.imageStatus(op, request);
    assert.deepEqual(image?.repoTags, [name]);
    assert.match(JSON.stringify(info), /WorkingDir\W+\/w\W/);
    await daemon.root.writeCniConfig('10.211.78.0/28');
    const now = await daemon.cri.runtime.status(op, { verbose: false });
    assert.equal(now.status?.conditions.find(({ type }) => type === 'NetworkReady')?.status, true);
    assert.equal(await daemon.end('SIGTERM'), 0);
  });
});
