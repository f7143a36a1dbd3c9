import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { ContainerConfig, ImageSpec, PodSandboxConfig, PullImageRequest } from '../../../src/cri/gen/api.ts';
import { CriFuzzer, type FuzzedCall } from '../../fuzz/cri-fuzzer.ts';
import { HostileStreams } from '../../fuzz/hostile-streams.ts';
import { damaged, recordClient, throwAt } from '../../fuzz/hostile-bytes.ts';
import { parseProto, type ProtoMethod } from '../../fuzz/proto-schema.ts';
import { bytesOf } from '../../fuzz/random-message.ts';
import { RawCri } from '../../fuzz/raw-cri.ts';
import { Random } from '../../soak/random.ts';
import { busyboxRootfs } from '../../support/busybox.ts';
import { eventually, Gantryd, op } from '../../support/gantryd.ts';
import { imageOf, layerOfTar } from '../../support/images.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { enterOwnNamespaces } from '../../support/own-namespaces.ts';
import { TestRegistry } from '../../support/registry.ts';
import { scaled } from '../../support/scale.ts';
import { tarOf } from '../../support/tar.ts';
import { TempRoot } from '../../support/temp-root.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
/** Another one draws another run; a failure says which it was. */
const SEED = Number(process.env['GANTRY_FUZZ_SEED'] ?? 20_261_122);
const CALLS = scaled({ small: 400, whole: 20_000 });
const CONNECTIONS = scaled({ small: 150, whole: 5_000 });
const SIDE_BY_SIDE = 8;
const DEADLINE_MS = 3_000;
/** What pools and caches may differ by. */
const SLACK = 4;
/** More than the server takes. */
const OVERSIZED_BYTES = 17 << 20;
/** Anything but what says that something is wrong with the runtime. */
const ANSWERS = new Set([
  ...['OK', 'INVALID_ARGUMENT', 'NOT_FOUND', 'ALREADY_EXISTS', 'FAILED_PRECONDITION', 'OUT_OF_RANGE', 'UNIMPLEMENTED'],
  ...['RESOURCE_EXHAUSTED', 'DEADLINE_EXCEEDED', 'ABORTED', 'CANCELLED', 'PERMISSION_DENIED', 'UNAVAILABLE'],
]);
const SCHEMA = new URL('../../../src/cri/schema/api.proto', import.meta.url);

interface Held {
  readonly descriptors: number;
  readonly threads: number;
}

describe('garbage', { skip }, () => {
  const random = new Random(SEED);
  let root: TempRoot;
  let registry: TestRegistry;
  let daemon: Gantryd;
  let leaks: LeakCheck;
  let atFirst: Held;
  let pid: number;
  let fuzzer: CriFuzzer;
  let cri: RawCri;
  let methods: readonly ProtoMethod[];
  let image: string;

  before(async () => {
    enterOwnNamespaces();
    root = await TempRoot.make();
    await root.writeCniConfig('10.211.79.0/24');
    registry = await TestRegistry.start();
    const layer = layerOfTar(await tarOf(await busyboxRootfs()), 'none');
    registry.push('busybox', imageOf([layer], { config: { Cmd: ['/bin/sleep', '3'] } }), '1');
    image = `${registry.host}/busybox:1`;
    daemon = await Gantryd.make({ root, flags: ['--runtime-only'] });
    await daemon.start({ agent: false });
    pid = daemon.pid;
    const schema = parseProto(await readFile(SCHEMA, 'utf8'));
    methods = schema.methods;
    cri = new RawCri(root.criSocket);
    fuzzer = new CriFuzzer({ random, cri, schema, folder: root.dir, image, deadlineMs: DEADLINE_MS });
    await pull();
    // What is made once, and stays: the bridge, threads, helpers, caches.
    await callSideBySide(60);
    await tidyUp();
    leaks = await LeakCheck.begin(root.leakRoots());
    atFirst = await held();
  });
  after(async () => {
    cri[Symbol.dispose]();
    await daemon[Symbol.asyncDispose]();
    await registry[Symbol.asyncDispose]();
    await root[Symbol.asyncDispose]();
  });

  async function pull(): Promise<void> {
    const wanted = ImageSpec.fromPartial({ image });
    await daemon.cri.image.pullImage(op, PullImageRequest.fromPartial({ image: wanted }));
  }

  async function callSideBySide(count: number): Promise<FuzzedCall[]> {
    const calls: FuzzedCall[] = [];
    const lane = async (): Promise<void> => {
      while (calls.length < count) calls.push(await fuzzer.callOnce());
    };
    await Promise.all(Array.from({ length: SIDE_BY_SIDE }, lane));
    return calls;
  }

  /** Removes all pods through the front door, as a kubelet would. */
  async function tidyUp(): Promise<void> {
    const { runtime } = daemon.cri;
    const { items } = await runtime.listPodSandbox(op, { filter: undefined });
    const ids = items.map(({ id }) => id);
    const lane = async (): Promise<void> => {
      for (let podSandboxId = ids.pop(); podSandboxId !== undefined; podSandboxId = ids.pop()) {
        await runtime.stopPodSandbox(op, { podSandboxId });
        await runtime.removePodSandbox(op, { podSandboxId });
      }
    };
    await Promise.all([lane(), lane(), lane()]);
    assert.deepEqual((await runtime.listContainers(op, { filter: undefined })).containers, []);
  }

  /** A pod whose container lives for a while. */
  async function runPod(): Promise<{ podSandboxId: string; containerId: string }> {
    const { runtime } = daemon.cri;
    // RemoveImage was among the calls.
    await pull();
    const sandboxConfig = PodSandboxConfig.fromPartial({
      metadata: { name: 'last', namespace: 'default', uid: 'uid-last', attempt: 0 },
      logDirectory: join(root.logRoot, 'last'),
      linux: {},
    });
    const { podSandboxId } = await runtime.runPodSandbox(op, { config: sandboxConfig, runtimeHandler: '' });
    const config = ContainerConfig.fromPartial({
      metadata: { name: 'main', attempt: 0 },
      image: { image },
      command: ['/bin/sleep', '100'],
      logPath: 'main.log',
      linux: {},
    });
    const { containerId } = await runtime.createContainer(op, { podSandboxId, config, sandboxConfig });
    await runtime.startContainer(op, { containerId });
    return { podSandboxId, containerId };
  }

  async function held(): Promise<Held> {
    const [descriptors, threads] = await Promise.all(
      ['fd', 'task'].map(async (name) => (await readdir(`/proc/${String(pid)}/${name}`)).length),
    );
    return { descriptors: descriptors ?? 0, threads: threads ?? 0 };
  }

  async function assertItServes(): Promise<void> {
    const log = await daemon.log();
    const version = await daemon.cri.runtime.version(op, { version: '' }).catch((error: unknown) => {
      throw new Error(`seed ${String(SEED)}: gantryd's last words: ${log.slice(-2000)}`, { cause: error });
    });
    assert.equal(version.runtimeName, 'gantry');
    assert.ok(!/unhandled|uncaught/i.test(log), `seed ${String(SEED)}: ${log.slice(-2000)}`);
  }

  test('every call takes arbitrary messages, and says what is wrong with them', async () => {
    const calls: FuzzedCall[] = [];
    // Each one for certain, before what the dice say.
    for (const method of methods) calls.push(await fuzzer.call(method), await fuzzer.call(method));
    calls.push(...(await callSideBySide(CALLS)));
    await assertItServes();
    for (const { method, answer, request } of calls) {
      const what = `seed ${String(SEED)}: ${method} ${request.subarray(0, 200).toString('hex')}: ${answer.code}: ${answer.message}`;
      // What is no message at all is refused so by convention.
      const isNoMessage =
        answer.code === 'INTERNAL' && answer.message.startsWith('the request does not fit the schema: ');
      assert.ok(isNoMessage || ANSWERS.has(answer.code), what);
    }
    const asked = new Set(calls.map(({ method }) => method));
    assert.equal(asked.size, methods.length);
  });

  test('arbitrary bytes and half frames end their own connection, and nothing else', async () => {
    const target = { path: root.criSocket };
    const proxy = join(root.dir, 'proxy.sock');
    const recording = await recordClient(target, proxy, async () => {
      using through = new RawCri(proxy);
      for (const method of methods.filter(({ streams }) => !streams).slice(0, 6)) {
        await through.call(method, Buffer.alloc(0), DEADLINE_MS);
      }
    });
    assert.ok(recording.length > 500, 'a conversation was recorded');
    const preface = recording.subarray(0, 24);
    for (let i = 0; i < CONNECTIONS; i += SIDE_BY_SIDE) {
      const things = Array.from({ length: SIDE_BY_SIDE }, () => {
        const noise = bytesOf(random.pick([0, 1, 9, 100, 5000]), random);
        return random.pick([
          noise,
          Buffer.concat([preface, noise]),
          damaged(recording, random),
          damaged(recording, random),
        ]);
      });
      await Promise.all(things.map((thing) => throwAt(target, thing, random)));
    }
    await assertItServes();
  });

  test('a message that is too big is refused, and many idle connections hold up nobody', async () => {
    const version = methods.find(({ path }) => path.endsWith('/Version'));
    assert.ok(version);
    const answer = await cri.call(version, Buffer.alloc(OVERSIZED_BYTES), 30_000);
    assert.equal(answer.code, 'RESOURCE_EXHAUSTED');
    const idle = Array.from({ length: 200 }, () => connect(root.criSocket).on('error', () => undefined));
    await assertItServes();
    for (const socket of idle) socket.destroy();
  });

  test('arbitrary bytes, half requests and broken frames on the streaming port end their own session, and nothing else', async () => {
    const { podSandboxId, containerId } = await runPod();
    const streams = new HostileStreams(daemon.cri.runtime, { podSandboxId, containerId }, random);
    await streams.record();
    const lane = async (): Promise<void> => {
      for (let i = 0; i < CONNECTIONS / SIDE_BY_SIDE; i++) await streams.throwOne();
    };
    await Promise.all(Array.from({ length: SIDE_BY_SIDE }, lane));
    await assertItServes();
    // A whole conversation still comes through.
    assert.equal(await streams.converse(), 'as ever\n');
  });

  test('afterwards nothing is left, nothing was made where it must not be, and a pod runs as ever', async () => {
    await tidyUp();
    await pull();
    await leaks.assertNone();
    const now = await eventually(
      held,
      ({ descriptors, threads }) => descriptors <= atFirst.descriptors + SLACK && threads <= atFirst.threads + SLACK,
      `descriptors and threads as before (${JSON.stringify(atFirst)})`,
    );
    assert.ok(now.descriptors > 0);
    const escaped = (await readdir(root.dir)).filter((name) => name.startsWith('escaped'));
    assert.deepEqual(escaped, []);
    const { containerId } = await runPod();
    const cmd = ['/bin/echo', 'as ever'];
    const { stdout } = await daemon.cri.runtime.execSync(op, { containerId, cmd, timeout: 60n });
    assert.equal(stdout.toString('utf8'), 'as ever\n');
    await tidyUp();
  });
});
