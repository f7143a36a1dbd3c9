import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, mkdir, mkdtemp, rmdir, writeFile } from 'node:fs/promises';
import http2 from 'node:http2';
import net from 'node:net';
import os from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { status } from '@grpc/grpc-js';
import { hearRuntime } from '../../../src/agent/pleg/hear-runtime.ts';
import { LABEL_AGENT } from '../../../src/agent/pods/names.ts';
import { connectCri } from '../../../src/cri/client.ts';
import { followContainerEvents } from '../../../src/cri/follow-container-events.ts';
import type { ContainerEventResponse } from '../../../src/cri/gen/api.ts';
import { ContainerEventType, ContainerState, VersionRequest, VersionResponse } from '../../../src/cri/gen/api.ts';
import { serveCri, type CriServer } from '../../../src/cri/server.ts';
import type { RuntimeService } from '../../../src/cri/services.ts';
import type { Op } from '../../../src/lib/abort.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import { canceled, isKind } from '../../../src/lib/errors.ts';
import { execFile } from '../../../src/linux/exec.ts';
import { silentLog } from '../../../src/lib/log.ts';
import { processIdentity } from '../../../src/linux/procfs.ts';
import { FakeRecords } from '../../../src/runtime/events/fake-records.ts';
import { getContainerEvents } from '../../../src/runtime/events/get-container-events.ts';
import { eventually, Gantryd, IMAGE } from '../../support/gantryd.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { TempRoot } from '../../support/temp-root.ts';
import { container, pod, RuntimeFixture } from './runtime-fixture.ts';

const op: Op = { signal: new AbortController().signal, log: silentLog };
const LIVES = 10_000;
/** More events than a reader may be behind. */
const TOO_MANY_LIVES = 2_000;
/** All of whose events are read. */
const READ_LIVES = 500;
/** What makes an event some 10 KB on the wire, so that 40,000 of them in a buffer would be 400 MB. */
const LABELS = { [LABEL_AGENT]: 'mine', size: 'x'.repeat(10_000) };
const FEW = 200;
const MUCH_MEMORY = 150 * 1024 * 1024;

/** Ends the process's wait for the microtasks of others. */
async function breathe(): Promise<void> {
  await new Promise((next) => setImmediate(next));
}

describe('events over a socket, of containers that are only written down', () => {
  let folder: string;
  let path: string;
  let records: FakeRecords;
  let server: CriServer;
  /** How many events the server has taken from the runtime, for all readers. */
  let taken = 0;

  const runtime: Partial<RuntimeService> = {
    version: () => Promise.resolve(VersionResponse.fromPartial({ version: 'v' })),
    getContainerEvents: (callOp) => counted(getContainerEvents(callOp, records)),
  };
  async function* counted(events: AsyncIterable<ContainerEventResponse>): AsyncGenerator<ContainerEventResponse> {
    for await (const event of events) {
      taken++;
      yield event;
    }
  }
  const serve = (): Promise<CriServer> => serveCri({ listen: path, runtime, log: silentLog, closeGraceMs: 0 });

  before(async () => {
    folder = await mkdtemp(join(os.tmpdir(), 'gantry-ev-'));
    path = join(folder, 'g.sock');
    records = await FakeRecords.open();
    await records.sandbox('s', LABELS);
    server = await serve();
  });
  after(async () => {
    await server.close();
    await rmdir(folder);
  });

  /** A client that asks for events and reads only what it is told to. */
  function rawReader(): { readonly session: http2.ClientHttp2Session; readonly stream: http2.ClientHttp2Stream } {
    const session = http2.connect('http://localhost', { createConnection: () => net.connect({ path }) });
    session.on('error', () => undefined);
    const stream = session.request({
      ':method': 'POST',
      ':path': '/runtime.v1.RuntimeService/GetContainerEvents',
      'content-type': 'application/grpc',
      te: 'trailers',
    });
    stream.on('error', () => undefined);
    stream.end(Buffer.from([0, 0, 0, 0, 0]));
    return { session, stream };
  }

  async function waiting(count: number): Promise<void> {
    await eventually(
      () => Promise.resolve(records.events.waiting),
      (now) => now === count,
      `${String(count)} readers that wait`,
    );
  }

  test('a reader that does not read costs no memory, holds up nobody, and is told when it reads again', async () => {
    using cri = connectCri(path);
    const { session, stream } = rawReader();
    await waiting(1);
    taken = 0;
    const memoryBefore = memoryInUse();
    for (let n = 0; n < LIVES; n++) {
      await records.live(`c${String(n)}`, 's');
      if (n % 1_000 === 0) {
        await breathe();
        // Others are answered meanwhile, over another connection.
        assert.equal((await cri.runtime.version(op, VersionRequest.fromPartial({}))).version, 'v');
      }
    }
    const grown = memoryInUse() - memoryBefore;
    assert.ok(taken > 0 && taken < FEW, `${String(taken)} events were taken for a reader that reads none`);
    assert.ok(grown < MUCH_MEMORY, `${String(grown)} bytes more than before`);

    const trailers = await new Promise<http2.IncomingHttpHeaders>((resolve) => {
      stream.on('trailers', resolve);
      stream.resume();
    });
    assert.equal(Number(trailers['grpc-status']), status.DATA_LOSS);
    assert.match(
      decodeURIComponent(String(trailers['grpc-message'])),
      /events are lost, as they were not read in time/,
    );
    assert.ok(taken < FEW);
    session.close();
    await waiting(0);
  });

  test('one who reads gets every event, numbered by nobody but in order', async () => {
    using cri = connectCri(path);
    const controller = new AbortController();
    const types = new Map<string, ContainerEventType[]>();
    let last = 0n;
    let over = false;
    const isOver = (): boolean => over;
    const reading = (async () => {
      for await (const event of cri.runtime.getContainerEvents({ ...op, signal: controller.signal }, {})) {
        types.set(event.containerId, [...(types.get(event.containerId) ?? []), event.containerEventType]);
        assert.ok(event.createdAt >= last);
        last = event.createdAt;
        if (types.size === READ_LIVES && event.containerEventType === ContainerEventType.CONTAINER_DELETED_EVENT) break;
      }
    })().finally(() => (over = true));
    await waiting(1);
    for (let n = 0; n < READ_LIVES && !isOver(); n++) {
      await records.live(`r${String(n)}`, 's');
      while (records.events.waiting === 0 && !isOver()) await breathe();
    }
    await reading;
    for (const told of types.values()) assert.deepEqual(told, [0, 1, 2, 3]);
    await waiting(0);
  });

  test('our own client is told what it has lost, and goes on', async () => {
    using cri = connectCri(path);
    const controller = new AbortController();
    const news = followContainerEvents({ ...op, signal: controller.signal }, cri.runtime, systemClock);
    const first = news.next();
    await waiting(1);
    for (let n = 0; n < TOO_MANY_LIVES; n++) {
      await records.live(`d${String(n)}`, 's');
      if (n % 100 === 0) await breathe();
    }
    assert.equal((await first).value?.kind, 'event');
    let seen = 0;
    for (;;) {
      const { value } = await news.next();
      assert.ok(value !== undefined);
      if (value.kind === 'event') {
        seen++;
        continue;
      }
      assert.equal(value.kind, 'lost');
      break;
    }
    assert.ok(seen < 4 * TOO_MANY_LIVES);
    const next = news.next();
    await waiting(1);
    await records.live('after', 's');
    const { value } = await next;
    assert.equal(value?.kind === 'event' && value.event.containerId, 'after');
    controller.abort(canceled('enough'));
    for await (const one of news) assert.equal(one.kind, 'event');
    await waiting(0);
  });

  test('readers that vanish are forgotten, waiting or stuck', async () => {
    const readers = [rawReader(), rawReader(), rawReader()];
    await waiting(3);
    readers[0]?.session.destroy();
    await waiting(2);
    for (let n = 0; n < 100; n++) await records.live(`v${String(n)}`, 's');
    await waiting(0);
    for (const { session } of readers) session.destroy();
    await records.live('last', 's');
    // None of their places is left: a reader that had come back would wait again.
    const one = rawReader();
    await waiting(1);
    one.session.destroy();
    await waiting(0);
  });

  test('the agent hears over a socket what it hears in process, and again after the runtime was away', async () => {
    using cri = connectCri(path);
    for (const service of [cri.runtime, runtime]) {
      const controller = new AbortController();
      let hints = 0;
      const heard = hearRuntime(
        { ...op, signal: controller.signal },
        { runtime: service, clock: systemClock, agentId: 'mine', hint: () => hints++ },
      );
      await waiting(1);
      await records.live(`a${String(hints)}${service === runtime ? 'p' : 's'}`, 's');
      await eventually(
        () => Promise.resolve(hints),
        (count) => count === 3,
        'a hint for each of started, stopped and deleted',
      );
      if (service !== runtime) {
        await server.close();
        await waiting(0);
        server = await serve();
        await waiting(1);
        const before = hints;
        await records.live('again', 's');
        await eventually(
          () => Promise.resolve(hints),
          (count) => count >= before + 3,
          'hints after the runtime has come back',
        );
      }
      controller.abort(canceled('enough'));
      await heard;
      await waiting(0);
    }
  });

  test('a server that closes ends its readers with Unavailable', async () => {
    using cri = connectCri(path);
    const events = cri.runtime.getContainerEvents(op, {})[Symbol.asyncIterator]();
    await waiting(1);
    const end = assert.rejects(events.next(), (error) => isKind(error, 'Unavailable'));
    await server.close();
    await end;
    await waiting(0);
    server = await serve();
  });
});

function memoryInUse(): number {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

const CRICTL = '/usr/local/bin/crictl';
const noCrictl = await access(CRICTL).then(
  () => false as const,
  () => `${CRICTL} is not there`,
);
const TYPES = ['CREATED', 'STARTED', 'STOPPED', 'DELETED'].map((type) => `CONTAINER_${type}_EVENT`);
const notRoot = process.getuid?.() !== 0 && 'needs root';

/** What is told of a pod whose one container ends by itself before the pod is stopped and removed. */
function expected(sandboxId: string, containerId: string): string[] {
  const lines = [
    [sandboxId, 'CREATED'],
    [sandboxId, 'STARTED'],
    [containerId, 'CREATED'],
    [containerId, 'STARTED'],
    [containerId, 'STOPPED'],
    [sandboxId, 'STOPPED'],
    [containerId, 'DELETED'],
    [sandboxId, 'DELETED'],
  ] as const;
  return lines.map(([id, type]) => `${id} CONTAINER_${type}_EVENT`);
}

describe('events of real containers', { skip: notRoot }, () => {
  let f: RuntimeFixture;
  let leaks: LeakCheck;

  before(async () => {
    f = await RuntimeFixture.make();
    leaks = await LeakCheck.begin(f.root.leakRoots());
  });
  after(async () => {
    await f[Symbol.asyncDispose]();
  });

  interface Told {
    readonly id: string;
    readonly type: string;
    readonly exitCode: number | undefined;
  }

  /** A pod whose container ends with 3; returns both ids when all is gone. */
  async function life(name: string): Promise<{ readonly sandboxId: string; readonly containerId: string }> {
    const config = pod(f.root, name);
    const sandboxId = await f.runSandbox(config);
    const containerId = await f.runContainer(sandboxId, config, container('main', ['sh', '-c', 'exit 3']));
    await f.waitFor(containerId, ({ state }) => state === ContainerState.CONTAINER_EXITED);
    // A kubelet that listens to events takes a sandbox's status for the whole pod's.
    const { containersStatuses, timestamp } = await f.cri.podSandboxStatus(op, {
      podSandboxId: sandboxId,
      verbose: false,
    });
    assert.deepEqual(
      containersStatuses.map(({ id, exitCode }) => [id, exitCode]),
      [[containerId, 3]],
    );
    assert.ok(timestamp > 0n);
    await f.endPod(sandboxId);
    return { sandboxId, containerId };
  }

  function lines(told: readonly Told[]): string[] {
    return told.map(({ id, type }) => `${id} ${type}`);
  }

  test('a pod in process, from its making to its removal', async () => {
    const events = f.cri.getContainerEvents?.(op, {})[Symbol.asyncIterator]();
    assert.ok(events);
    const { sandboxId, containerId } = await life('told');
    const told: Told[] = [];
    while (told.length < 8) {
      const { value } = (await events.next()) as { value: ContainerEventResponse };
      const { exitCode } = value.containersStatuses.find(({ id }) => id === value.containerId) ?? {};
      told.push({ id: value.containerId, type: TYPES[value.containerEventType] ?? '', exitCode });
    }
    assert.deepEqual(lines(told), expected(sandboxId, containerId));
    assert.equal(told[4]?.exitCode, 3);
    await leaks.assertNone();
  });

  test('an exit while no daemon was there is told once by the next', async () => {
    const hostPath = join(f.root.dir, 'shared');
    await mkdir(hostPath);
    const config = pod(f.root, 'down');
    const sandboxId = await f.runSandbox(config);
    const script = 'while ! [ -e /shared/end ]; do sleep 0.05; done; exit 4';
    const mounts = [{ hostPath, containerPath: '/shared' }];
    const containerId = await f.runContainer(sandboxId, config, container('main', ['sh', '-c', script], { mounts }));
    const { info } = await f.cri.containerStatus(op, { containerId, verbose: true });
    const { pid } = JSON.parse(info['info'] ?? '') as { pid: number };
    await f.restart(async () => {
      await writeFile(join(hostPath, 'end'), '');
      await eventually(
        () => processIdentity(pid),
        (found) => found === undefined,
        'the end of the container',
      );
    });
    await f.runtime.recovered;
    await f.waitFor(containerId, ({ state }) => state === ContainerState.CONTAINER_EXITED);
    assert.equal((await f.status(containerId)).exitCode, 4);
    await f.endPod(sandboxId);
    const told: string[] = [];
    for await (const news of f.runtime.events.follow(op, 0)) {
      assert.ok(news.kind === 'event');
      told.push(`${news.value.id === containerId ? 'container' : 'sandbox'} ${news.value.type}`);
      if (news.seq === f.runtime.events.lastSeq) break;
    }
    assert.deepEqual(told, ['container stopped', 'sandbox stopped', 'container deleted', 'sandbox deleted']);
    await leaks.assertNone();
  });
});

describe('crictl events', { skip: notRoot || noCrictl }, () => {
  test('tells a pod by crictl from a gantryd with --runtime-only', async () => {
    await using root = await TempRoot.make();
    await using whole = await Gantryd.make({ root });
    await whole.start();
    await whole.importImage();
    await whole.end('SIGTERM');
    await using daemon = await Gantryd.make({ root, flags: ['--runtime-only'] });
    await daemon.start({ agent: false });
    const endpoint = `unix://${root.criSocket}`;
    const flags = ['--timeout', '120s', '--runtime-endpoint', endpoint, '--image-endpoint', endpoint];
    const crictl = async (...args: readonly string[]): Promise<string> => {
      const { code, stdout, stderr } = await execFile(op, CRICTL, [...flags, ...args]);
      assert.equal(code, 0, `crictl ${args.join(' ')}: ${stdout}${stderr}`);
      return stdout.trim();
    };
    const template = '{{.containerId}} {{.containerEventType}} {{.podSandboxStatus.metadata.name}}';
    const listener = spawn(CRICTL, [...flags, 'events', '-o', 'go-template', '--template', template], {
      stdio: 'pipe',
    });
    let text = '';
    listener.stdout.on('data', (chunk: Buffer) => (text += chunk.toString('utf8')));
    const ended = once(listener, 'close');
    try {
      const podFile = join(root.dir, 'pod.json');
      const containerFile = join(root.dir, 'container.json');
      const metadata = { name: 'told', namespace: 'default', uid: 'uid-told', attempt: 0 };
      const linux = { security_context: { namespace_options: { network: 2 } } };
      await writeFile(podFile, JSON.stringify({ metadata, log_directory: root.logRoot, linux }));
      const command = ['/bin/sh', '-c', 'exit 3'];
      const config = { metadata: { name: 'main' }, image: { image: IMAGE }, command, log_path: 'main.log', linux: {} };
      await writeFile(containerFile, JSON.stringify(config));
      // crictl does not say when it listens: whatever it tells of this one says that it does.
      const probe = async (): Promise<string> => {
        const id = await crictl('runp', podFile);
        await crictl('stopp', id);
        await crictl('rmp', id);
        return text;
      };
      await eventually(probe, (told) => told !== '', 'a first event');
      const sandbox = await crictl('runp', podFile);
      const id = await crictl('create', sandbox, containerFile, podFile);
      await crictl('start', id);
      await eventually(
        () => crictl('inspect', id),
        (shown) => shown.includes('CONTAINER_EXITED'),
        'the end of the container',
      );
      await crictl('stopp', sandbox);
      await crictl('rmp', sandbox);
      const mine = (): string[] => text.split('\n').filter((line) => line.startsWith(sandbox) || line.startsWith(id));
      await eventually(
        () => Promise.resolve(mine()),
        (told) => told.length === 8,
        'eight events',
      );
      assert.deepEqual(
        mine(),
        expected(sandbox, id).map((line) => `${line} told`),
      );
    } finally {
      listener.kill('SIGKILL');
      await ended;
    }
  });
});
