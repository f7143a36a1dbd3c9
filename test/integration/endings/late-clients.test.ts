import assert from 'node:assert/strict';
import { chmod, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, credentials, Metadata, status as Code, type MethodDefinition, type ServiceError } from '@grpc/grpc-js';
import {
  ContainerState,
  CreateContainerRequest,
  ImageServiceService,
  ImageSpec,
  NamespaceMode,
  PodSandboxState,
  RuntimeServiceService,
  type ContainerConfig,
  type PodSandboxConfig,
} from '../../../src/cri/gen/api.ts';
import { imageOf, layerOf } from '../../support/images.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { TestRegistry } from '../../support/registry.ts';
import { WrappedOciRuntime } from '../../support/wrapped-oci-runtime.ts';
import { eventually } from '../runtime/daemon-process.ts';
import { container, op, pod } from '../runtime/runtime-fixture.ts';
import { CriDaemon } from './cri-daemon.ts';

// A client that sets deadlines which are far too short, as a kubelet's are when a machine is slow, and asks again.

const root = process.getuid?.() !== 0 && 'needs root';
const DEADLINE_MS = 50;
const PLUGIN = `#!/bin/sh
here=\${0%/*}
echo "$CNI_COMMAND" >> "$here/calls"
while [ -e "$here/$CNI_COMMAND.hangs" ]; do sleep 0.02; done
[ "$CNI_COMMAND" != ADD ] ||
echo '{"cniVersion":"1.0.0","interfaces":[{"name":"eth0","sandbox":"x"}],"ips":[{"address":"192.0.2.7/24","interface":0}]}'
`;

let daemon: CriDaemon;
let client: Client;
let oci: WrappedOciRuntime;
let plugins: string;
let leaks: LeakCheck;

before(async () => {
  if (root !== false) return;
  daemon = await CriDaemon.start(async (places) => {
    plugins = join(places.dir, 'plugins');
    await mkdir(plugins);
    await writeFile(join(plugins, 'slow'), PLUGIN);
    await chmod(join(plugins, 'slow'), 0o755);
    const list = { cniVersion: '1.0.0', name: 'slow', plugins: [{ type: 'slow' }] };
    await writeFile(join(places.cniConfDir, '10-slow.conflist'), JSON.stringify(list));
    oci = await WrappedOciRuntime.make(join(places.dir, 'oci'));
    return { cniBinDirs: [plugins], ociRuntime: oci.path };
  });
  client = new Client(`unix:${daemon.root.criSocket}`, credentials.createInsecure(), {
    'grpc.default_authority': 'localhost',
  });
  leaks = await LeakCheck.begin(daemon.root.leakRoots());
});

after(async () => {
  if (root !== false) return;
  try {
    await leaks.assertNone();
  } finally {
    client.close();
    await daemon[Symbol.asyncDispose]();
  }
});

async function ask<Request, Response>(
  method: MethodDefinition<Request, Response>,
  request: Request,
  deadlineMs = DEADLINE_MS,
): Promise<Response> {
  return await new Promise((resolve, reject) => {
    const { path, requestSerialize, responseDeserialize } = method;
    const options = { deadline: Date.now() + deadlineMs };
    const done = (error: ServiceError | null, response?: Response): void => {
      if (error === null && response !== undefined) resolve(response);
      else reject(error ?? new Error('no response'));
    };
    client.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, new Metadata(), options, done);
  });
}

const isLate = (error: unknown): boolean => (error as ServiceError).code === Code.DEADLINE_EXCEEDED;

/** Asks until it is answered; any failure but a deadline that has passed is one. */
async function insist<Request, Response>(
  method: MethodDefinition<Request, Response>,
  request: Request,
  deadlineMs = (): number => DEADLINE_MS,
): Promise<{ readonly answer: Response; readonly late: number }> {
  const endMs = performance.now() + 60_000;
  for (let late = 0; ; late++) {
    try {
      return { answer: await ask(method, request, deadlineMs()), late };
    } catch (error) {
      if (!isLate(error) || performance.now() > endMs) throw error;
    }
  }
}

/** Is late once with `what` hanging, then lets it work and asks until it is answered. */
async function lateThenAnswered<Request, Response>(
  hangs: { hang(): Promise<void>; work(): Promise<void> },
  method: MethodDefinition<Request, Response>,
  request: Request,
): Promise<Response> {
  await hangs.hang();
  try {
    await assert.rejects(ask(method, request), isLate);
    await assert.rejects(ask(method, request), isLate);
  } finally {
    await hangs.work();
  }
  return (await insist(method, request)).answer;
}

function plugin(command: 'ADD' | 'DEL'): { hang(): Promise<void>; work(): Promise<void> } {
  const file = join(plugins, `${command}.hangs`);
  return { hang: () => writeFile(file, ''), work: () => rm(file, { force: true }) };
}

async function callsOf(command: 'ADD' | 'DEL'): Promise<number> {
  const text = await readFile(join(plugins, 'calls'), 'utf8').catch(() => '');
  return text.split('\n').filter((line) => line === command).length;
}

const podNet = (name: string): PodSandboxConfig => pod(daemon.root, name, { network: NamespaceMode.POD });

function createRequest(podSandboxId: string, sandboxConfig: PodSandboxConfig, config: ContainerConfig) {
  return CreateContainerRequest.fromPartial({ podSandboxId, config, sandboxConfig });
}

async function endPod(podSandboxId: string): Promise<void> {
  await daemon.endPod(podSandboxId);
}

test(
  'RunPodSandbox: the plug-in is asked once, and the retry gets the sandbox, also one that came when nobody asked',
  { skip: root },
  async () => {
    const before = await callsOf('ADD');
    const config = podNet('run');
    const request = { config, runtimeHandler: '' };
    const { podSandboxId } = await lateThenAnswered(plugin('ADD'), RuntimeServiceService.runPodSandbox, request);
    assert.equal((await callsOf('ADD')) - before, 1);
    const { items } = await daemon.cri.listPodSandbox(op, { filter: undefined });
    assert.deepEqual(
      items.map(({ id }) => id),
      [podSandboxId],
    );
    await endPod(podSandboxId);

    await plugin('ADD').hang();
    await assert.rejects(ask(RuntimeServiceService.runPodSandbox, request), isLate);
    await plugin('ADD').work();
    const list = async () => (await daemon.cri.listPodSandbox(op, { filter: undefined })).items;
    const [made] = await eventually(list, ([one]) => one?.state === PodSandboxState.SANDBOX_READY, 'the sandbox');
    const again = await insist(RuntimeServiceService.runPodSandbox, request);
    assert.equal(again.answer.podSandboxId, made?.id);
    await endPod(again.answer.podSandboxId);
  },
);

test(
  'CreateContainer, StartContainer: whenever the deadline passes there is one container, whose command runs once',
  { skip: root },
  async () => {
    const config = pod(daemon.root, 'create');
    const sandbox = await daemon.runSandbox(config);
    let lateInAll = 0;
    for (let round = 0; round < 12; round++) {
      const name = `c${String(round)}`;
      let tries = 0;
      const create = createRequest(sandbox, config, container(name, ['sh', '-c', 'echo once; exec sleep 1000']));
      // From far too short to nearly enough: some pass on the way back.
      const made = await insist(RuntimeServiceService.createContainer, create, () => 1 + round + 3 * tries++);
      lateInAll += made.late;
      const { containerId } = made.answer;
      const { containers } = await daemon.cri.listContainers(op, { filter: undefined });
      assert.deepEqual(
        containers.filter(({ metadata }) => metadata?.name === name).map(({ id }) => id),
        [containerId],
      );
      if (round % 4 === 0) {
        const hangs = { hang: () => oci.hang('create'), work: () => oci.work('create') };
        await lateThenAnswered(hangs, RuntimeServiceService.startContainer, { containerId });
        assert.equal((await daemon.status(containerId)).state, ContainerState.CONTAINER_RUNNING);
        const log = join(config.logDirectory, name, '0.log');
        const text = await eventually(
          () => readFile(log, 'utf8'),
          (lines) => lines !== '',
          'its line',
        );
        assert.equal(text.match(/once/g)?.length, 1);
      }
    }
    assert.ok(lateInAll > 0, 'no deadline has passed: nothing was tried');
    await endPod(sandbox);
  },
);

test('StopContainer, RemoveContainer: one stop signal, one end, whoever asks how often', { skip: root }, async () => {
  const config = pod(daemon.root, 'stop');
  const sandbox = await daemon.runSandbox(config);
  const ignores = 'trap "echo TERM" TERM; echo ready; while :; do sleep 0.05; done';
  const containerId = await daemon.run(sandbox, config, container('c', ['sh', '-c', ignores]));
  const log = join(config.logDirectory, 'c', '0.log');
  await eventually(
    () => readFile(log, 'utf8'),
    (text) => text.includes('ready'),
    'its first line',
  );
  const stopped = await insist(RuntimeServiceService.stopContainer, { containerId, timeout: 1n });
  assert.ok(stopped.late > 5, `late ${String(stopped.late)} times in a second`);
  const status = await daemon.status(containerId);
  assert.deepEqual([status.state, status.exitCode], [ContainerState.CONTAINER_EXITED, 137]);
  assert.equal((await readFile(log, 'utf8')).match(/TERM/g)?.length, 1);

  const other = await daemon.run(sandbox, config, container('d', ['sleep', '1000']));
  const hangs = { hang: () => oci.hang('delete', other), work: () => oci.work('delete', other) };
  await lateThenAnswered(hangs, RuntimeServiceService.removeContainer, { containerId: other });
  const { containers } = await daemon.cri.listContainers(op, { filter: undefined });
  assert.deepEqual(
    containers.map(({ id }) => id),
    [containerId],
  );
  await endPod(sandbox);
});

test(
  'StopPodSandbox, RemovePodSandbox: the network is taken down once, and the retry is answered when it is',
  { skip: root },
  async () => {
    const before = await callsOf('DEL');
    const stopped = await daemon.runSandbox(podNet('stopped'));
    await lateThenAnswered(plugin('DEL'), RuntimeServiceService.stopPodSandbox, { podSandboxId: stopped });
    assert.equal((await callsOf('DEL')) - before, 1);
    const { status } = await daemon.cri.podSandboxStatus(op, { podSandboxId: stopped, verbose: false });
    assert.equal(status?.state, PodSandboxState.SANDBOX_NOTREADY);
    await insist(RuntimeServiceService.removePodSandbox, { podSandboxId: stopped });

    const config = podNet('removed');
    const removed = await daemon.runSandbox(config);
    await daemon.run(removed, config, container('c', ['sleep', '1000']));
    await lateThenAnswered(plugin('DEL'), RuntimeServiceService.removePodSandbox, { podSandboxId: removed });
    assert.equal((await callsOf('DEL')) - before, 2);
    assert.deepEqual((await daemon.cri.listPodSandbox(op, { filter: undefined })).items, []);

    // Nobody asks again: it is finished all the same.
    const left = await daemon.runSandbox(podNet('left'));
    await plugin('DEL').hang();
    await assert.rejects(ask(RuntimeServiceService.removePodSandbox, { podSandboxId: left }), isLate);
    await plugin('DEL').work();
    const list = async () => (await daemon.cri.listPodSandbox(op, { filter: undefined })).items;
    await eventually(list, (items) => items.length === 0, 'its removal');
  },
);

test(
  'PullImage, RemoveImage: nothing is fetched twice, the retry is answered when the image is there; its layers go',
  { skip: root },
  async () => {
    const layersBefore = (await readdir(join(daemon.root.data, 'layers'))).toSorted();
    await using registry = await TestRegistry.start();
    await daemon.root.allowPlainHttp(registry.host);
    const image = imageOf([await layerOf('one'), await layerOf('two')]);
    registry.push('app', image, 'latest');
    let slow = true;
    registry.intercept = (request, response) => {
      if (!slow || !request.path.includes('/blobs/')) return false;
      // Answered late, by asking the registry itself once more.
      const again = async (): Promise<void> => {
        await sleep(200);
        const answer = await fetch(`http://${registry.host}${request.path}`, { headers: { 'x-late': 'yes' } });
        response.writeHead(answer.status, Object.fromEntries(answer.headers));
        response.end(Buffer.from(await answer.arrayBuffer()));
      };
      if (request.headers['x-late'] !== undefined) return false;
      void again();
      return true;
    };
    const spec = ImageSpec.fromPartial({ image: `${registry.host}/app` });
    const request = { image: spec, auth: undefined, sandboxConfig: undefined };
    const pulled = await insist(ImageServiceService.pullImage, request);
    assert.ok(pulled.late > 0);
    assert.equal(pulled.answer.imageRef, image.id);
    for (const { digest } of [image.config, ...image.layers]) {
      const asked = registry.requests.filter(
        ({ path, headers }) => path.includes(digest) && headers['x-late'] === undefined,
      );
      assert.equal(asked.length, 1, digest);
    }
    slow = false;
    let tries = 0;
    await insist(ImageServiceService.removeImage, { image: spec }, () => 2 + tries++);
    assert.equal(
      (await insist(ImageServiceService.imageStatus, { image: spec, verbose: false })).answer.image,
      undefined,
    );
    const layers = async (): Promise<string[]> => (await readdir(join(daemon.root.data, 'layers'))).toSorted();
    await eventually(layers, (names) => names.join() === layersBefore.join(), 'the end of its layers');
  },
);
