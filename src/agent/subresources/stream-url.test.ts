import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../lib/fake-clock.ts';
import { silentLog } from '../../lib/log.ts';
import { notFound } from '../../lib/errors.ts';
import { CreateContainerRequest, RunPodSandboxRequest } from '../../cri/gen/api.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Pod } from '../../kube/objects.ts';
import type { PodStreamRequest } from '../../kube/streams/pod-streams.ts';
import { LABEL_AGENT, LABEL_POD_UID } from '../pods/names.ts';
import { testPod } from '../pods/test-pod.ts';
import { FakeRuntime } from '../workers/fake-runtime.ts';
import { podStreamUrl } from './stream-url.ts';

const op = { signal: new AbortController().signal, log: silentLog };
const WEB = { namespace: 'default', name: 'web' };
const STREAMS = { stdin: true, stdout: true, stderr: true, tty: false };

/** The pod `web` with containers of these names that run, `main` with a terminal, in a runtime that serves streams. */
class Room {
  readonly fake = new FakeRuntime(new FakeClock());
  readonly asked: unknown[] = [];
  readonly #pod: Pod;

  constructor(names: readonly string[], more: Partial<Pod> = {}) {
    const containers = names.map((name) => ({ name, image: 'busybox:1', tty: name === 'main' }));
    this.#pod = { ...testPod({ containers }).object, ...more };
    const serve = (request: unknown): Promise<{ url: string }> => {
      this.asked.push(request);
      return Promise.resolve({ url: 'http://127.0.0.1:1/token' });
    };
    this.fake.runtime.exec = (_op, request) => serve(request);
    this.fake.runtime.attach = (_op, request) => serve(request);
    this.fake.runtime.portForward = (_op, request) => serve(request);
  }

  async run(...names: readonly string[]): Promise<void> {
    const { runtime } = this.fake;
    const labels = { [LABEL_POD_UID]: this.#pod.metadata.uid, [LABEL_AGENT]: 'a' };
    const sandbox = RunPodSandboxRequest.fromPartial({ config: { metadata: WEB, labels } });
    const { podSandboxId } = await runtime.runPodSandbox(op, sandbox);
    for (const name of names) {
      const request = CreateContainerRequest.fromPartial({ podSandboxId, config: { metadata: { name }, labels } });
      await runtime.startContainer(op, await runtime.createContainer(op, request));
    }
  }

  ask(request: PodStreamRequest): Promise<string> {
    const get = (_op: unknown, _resource: unknown, { name }: { name: string }): Promise<Pod> =>
      name === 'web' ? Promise.resolve(this.#pod) : Promise.reject(notFound(`pods "${name}" not found`));
    const kube = { get } as unknown as Pick<KubeClient, 'get'>;
    return podStreamUrl(op, { kube, runtime: this.fake.runtime, agentId: 'a' }, request);
  }
}

test('exec: the only container is meant, and the runtime is told what was asked for', async () => {
  const room = new Room(['main']);
  await room.run('main');
  const url = await room.ask({ kind: 'exec', ...WEB, ...STREAMS, command: ['sh', '-c', ''] });
  assert.equal(url, 'http://127.0.0.1:1/token');
  assert.deepEqual(room.asked, [{ containerId: 'container-2', cmd: ['sh', '-c', ''], ...STREAMS }]);
});

test('attach: whether there is a terminal is settled by the container', async () => {
  const room = new Room(['main', 'side']);
  await room.run('main', 'side');
  const attach = { kind: 'attach', ...WEB, ...STREAMS, stderr: false } as const;
  await room.ask({ ...attach, container: 'main' });
  await room.ask({ ...attach, container: 'side', tty: true });
  await room.ask({ ...attach, container: 'main', stderr: true });
  const common = { stdin: true, stdout: true };
  assert.deepEqual(room.asked, [
    { containerId: 'container-2', ...common, stderr: false, tty: true },
    { containerId: 'container-3', ...common, stderr: false, tty: false },
    // A client that wants a stream for stderr gets one on which nothing comes.
    { containerId: 'container-2', ...common, stderr: true, tty: false },
  ]);
});

test('port-forward goes to the sandbox that is ready', async () => {
  const room = new Room(['main']);
  const request = { kind: 'portforward', ...WEB } as const;
  const message = 'unable to forward port because pod is not running. Current status=Pending';
  await assert.rejects(room.ask(request), { kind: 'InvalidArgument', message });
  await room.run('main');
  await room.fake.runtime.stopPodSandbox(op, { podSandboxId: 'sandbox-1' });
  await room.run('main');
  await room.ask(request);
  await room.ask({ ...request, ports: [80, 443] });
  assert.deepEqual(room.asked, [
    { podSandboxId: 'sandbox-3', port: [] },
    { podSandboxId: 'sandbox-3', port: [80, 443] },
  ]);
});

test('a pod or a container that there is not, or that is not named among several', async () => {
  const room = new Room(['main', 'side']);
  await room.run('main', 'side');
  const exec = { kind: 'exec', ...WEB, ...STREAMS, command: ['date'] } as const;
  await assert.rejects(room.ask({ ...exec, name: 'nobody' }), { kind: 'NotFound', message: 'pods "nobody" not found' });
  await assert.rejects(room.ask({ ...exec, container: 'no' }), {
    kind: 'InvalidArgument',
    message: 'container no is not valid for pod web: it has main, side',
  });
  await assert.rejects(room.ask(exec), {
    kind: 'InvalidArgument',
    message: 'a container name must be specified for pod web, choose one of: [main side]',
  });
  assert.deepEqual(room.asked, []);
});

test('a container that does not run: what it does instead', async () => {
  const exec = { kind: 'exec', ...WEB, ...STREAMS, command: ['date'] } as const;
  const room = new Room(['main']);
  const kind = 'InvalidArgument';
  const creating = 'container "main" in pod "web" is waiting to start: ContainerCreating';
  await assert.rejects(room.ask(exec), { kind, message: creating });
  await room.run('main');
  room.fake.exit('main', 3);
  const ended = 'container "main" in pod "web" is not running: it ended with exit code 3';
  await assert.rejects(room.ask(exec), { kind, message: ended });
  const waiting = { reason: 'CrashLoopBackOff' };
  const status = {
    containerStatuses: [{ name: 'main', image: '', imageID: '', ready: false, restartCount: 1, state: { waiting } }],
  };
  const crashing = new Room(['main'], { status });
  await crashing.run('main');
  crashing.fake.exit('main', 1);
  const message = 'container "main" in pod "web" is waiting to start: CrashLoopBackOff';
  await assert.rejects(crashing.ask({ ...exec, kind: 'attach' }), { kind, message });
});

test('a runtime without streaming', async () => {
  const room = new Room(['main']);
  await room.run('main');
  room.fake.runtime.exec = undefined;
  const exec = { kind: 'exec', ...WEB, ...STREAMS, command: ['date'] } as const;
  await assert.rejects(room.ask(exec), { kind: 'NotImplemented', message: 'this runtime has no exec' });
});
