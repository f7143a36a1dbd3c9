import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import os from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { openFakeApi, type FakeApi } from '../kube/api/fake-api.ts';
import type { NodeCondition, Pod, PodSpec } from '../kube/objects.ts';
import type { JournalInput } from '../journal/journal.ts';
import { silentLog } from '../lib/log.ts';
import { createAgent, type Agent, type AgentHost } from './agent.ts';
import { FakeRuntime } from './workers/fake-runtime.ts';
import type { TeardownBlocker, TreeRemover } from './volumes/plugin.ts';

interface World {
  readonly api: FakeApi;
  readonly fake: FakeRuntime;
  readonly journal: JournalInput[];
  readonly blockers: TeardownBlocker[];
  readonly directory: string;
  agent: Agent;
  /** A new agent process over the same API, runtime and disk. */
  restart(beforeStart?: (agent: Agent) => void): Promise<void>;
  /** Moves time on until something holds; in steps, as what waits for the disk goes by real time. */
  until(what: string, holds: () => Promise<boolean> | boolean, limitMs?: number): Promise<void>;
  pod(name: string): Promise<Pod | undefined>;
  events(name: string): Promise<string[]>;
}

async function world(t: TestContext, host: Partial<AgentHost> = {}): Promise<World> {
  const directory = await mkdtemp(join(os.tmpdir(), 'gantry-agent-'));
  const api = await openFakeApi();
  const fake = new FakeRuntime(api.clock);
  fake.images.add('app:1');
  const journal: JournalInput[] = [];
  const blockers: TeardownBlocker[] = [];
  const remover: TreeRemover = {
    remove: async (_op, { path }) => {
      const hit = blockers.filter((blocker) => blocker.path === path);
      if (hit.length > 0) return { kind: 'blocked', blockers: hit };
      await rm(path, { recursive: true, force: true });
      return { kind: 'removed' };
    },
  };
  const make = (): Promise<Agent> =>
    createAgent({
      cri: { runtime: fake.runtime, image: fake.image },
      kube: api.kube,
      journal: { record: (entry) => journal.push(entry) },
      clock: api.clock,
      log: silentLog,
      podsDir: join(directory, 'pods'),
      logRoot: join(directory, 'logs'),
      nodeName: 'node-1',
      agentId: 'test',
      podCgroup: (podUid) => `/gantry-test/pod${podUid}`,
      seccompProfileRoot: '/seccomp',
      version: '0',
      hadPod: () => Promise.resolve(false),
      host: { remover, bootId: 'boot-1', memoryBytes: 1 << 30, cpus: 2, ...host },
    });
  const result: World = {
    api,
    fake,
    journal,
    blockers,
    directory,
    agent: await make(),
    restart: async (beforeStart) => {
      await stop();
      result.agent = await make();
      beforeStart?.(result.agent);
      await result.agent.start();
    },
    until: async (what, holds, limitMs = 120_000) => {
      const steps = Math.ceil(limitMs / 100);
      for (let step = 0; step < steps; step++) {
        if (await holds()) return;
        await diskIdle();
        await api.clock.advance(100);
      }
      assert.fail(
        `not within ${String(limitMs)} ms: ${what}\n${fake.calls.join('\n')}\n${JSON.stringify(await result.pod('web'), null, 1)}`,
      );
    },
    pod: async (name) => (await api.kube.list(api.op, 'pods')).items.find(({ metadata }) => metadata.name === name),
    events: async (name) =>
      (await api.kube.list(api.op, 'events')).items
        .filter(({ involvedObject }) => involvedObject.name === name)
        .map(({ reason }) => reason ?? ''),
  };
  const stop = async (): Promise<void> => {
    const stopped = result.agent.stop();
    await api.clock.advance(2_000);
    await stopped;
  };
  t.after(async () => {
    await stop();
    api.close();
    await rm(directory, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  });
  await result.agent.start();
  return result;
}

/** Until no file call is under way: they take real time, in which the test's clock has to stand still. A close has a name of its own. */
async function diskIdle(): Promise<void> {
  do await new Promise((resolve) => setTimeout(resolve, 1));
  while (process.getActiveResourcesInfo().some((kind) => kind.startsWith('FSReq') || kind === 'CloseReq'));
}

async function apply(w: World, spec: Partial<PodSpec>, name = 'web'): Promise<Pod> {
  return await w.api.kube.create(w.api.op, 'pods', {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: 'default' },
    spec: { containers: [{ name: 'main', image: 'app:1' }], ...spec },
  });
}

function isReady(pod: Pod | undefined): boolean {
  return pod?.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true;
}

await test('a pod runs, is ready, and after its deletion nothing is left', async (t) => {
  const w = await world(t);
  await w.api.kube.create(w.api.op, 'configmaps', {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'settings', namespace: 'default' },
    data: { mode: 'fast' },
  });
  const made = await apply(w, {
    containers: [
      { name: 'a', image: 'app:1', volumeMounts: [{ name: 'data', mountPath: '/data' }] },
      { name: 'b', image: 'app:1', volumeMounts: [{ name: 'conf', mountPath: '/conf' }] },
    ],
    volumes: [
      { name: 'data', emptyDir: {} },
      { name: 'conf', configMap: { name: 'settings' } },
    ],
  });
  const { uid } = made.metadata;
  await w.until('ready', async () => isReady(await w.pod('web')));
  assert.deepEqual(w.fake.running(), ['a/0', 'b/0']);
  const pod = await w.pod('web');
  assert.equal(pod?.status?.phase, 'Running');
  assert.equal(pod.status.podIP, '10.9.0.2');
  const volume = join(w.directory, 'pods', uid, 'volumes', 'kubernetes.io~empty-dir', 'data');
  assert.equal((await stat(volume)).mode & 0o777, 0o777);
  const conf = join(w.directory, 'pods', uid, 'volumes', 'kubernetes.io~configmap', 'conf', 'mode');
  assert.equal(await readFile(conf, 'utf8'), 'fast');
  assert.deepEqual((await w.events('web')).sort(), [
    'Created',
    'Created',
    'Pulled',
    'Pulled',
    'Scheduled',
    'Started',
    'Started',
  ]);

  await w.api.kube.delete(w.api.op, 'pods', { namespace: 'default', name: 'web' });
  await w.until('gone', async () => (await w.pod('web')) === undefined);
  assert.deepEqual([w.fake.sandboxes.size, w.fake.containers.size], [0, 0]);
  assert.deepEqual(await readdir(join(w.directory, 'pods')), []);
  assert.deepEqual(await readdir(join(w.directory, 'logs')), []);
  const order = w.fake.calls.map((call) => call.split(' ')[0]).filter((call) => /Pod|stop/.test(call ?? ''));
  assert.deepEqual(order, ['runPodSandbox', 'stopContainer', 'stopContainer', 'stopPodSandbox', 'removePodSandbox']);
  const steps = w.journal.map(({ what }) => what);
  const at = (what: string): number => steps.lastIndexOf(what);
  assert.ok(at('pod.sandbox-stopped') < at('volume.torn-down') && at('volume.torn-down') < at('pod.sandbox-removed'));
});

await test('a second pass over a running pod does nothing', async (t) => {
  const w = await world(t);
  await apply(w, {});
  await w.until('ready', async () => isReady(await w.pod('web')));
  const calls = w.fake.calls.length;
  const { resourceVersion } = (await w.pod('web'))?.metadata ?? {};
  await w.api.clock.advance(180_000);
  assert.equal(w.fake.calls.length, calls);
  assert.equal((await w.pod('web'))?.metadata.resourceVersion, resourceVersion);
});

await test('crashes back off: at once, 10 s, 20 s', async (t) => {
  const w = await world(t);
  await apply(w, {});
  await w.until('runs', () => w.fake.running().includes('main/0'));
  w.fake.exit('main', 1);
  await w.until('second run', () => w.fake.running().includes('main/1'), 3_000);
  w.fake.exit('main', 1);
  await w.until('back-off', async () => {
    const state = (await w.pod('web'))?.status?.containerStatuses?.[0]?.state;
    return state?.waiting?.reason === 'CrashLoopBackOff';
  });
  await w.api.clock.advance(5_000);
  assert.deepEqual(w.fake.running(), []);
  await w.until('third run', () => w.fake.running().includes('main/2'), 9_000);
  const status = (await w.pod('web'))?.status?.containerStatuses?.[0];
  assert.equal(status?.restartCount, 2);
  assert.equal(status.lastState?.terminated?.exitCode, 1);
  assert.ok((await w.events('web')).includes('BackOff'));
});

await test('a pod that is over keeps its containers until it is deleted', async (t) => {
  const w = await world(t);
  await apply(w, { restartPolicy: 'Never' });
  await w.until('runs', () => w.fake.running().length === 1);
  w.fake.exit('main', 3);
  await w.until('failed', async () => (await w.pod('web'))?.status?.phase === 'Failed');
  await w.until('sandbox stopped', () => [...w.fake.sandboxes.values()].every(({ ready }) => !ready));
  assert.equal(w.fake.containers.size, 1);
  assert.equal((await w.pod('web'))?.status?.containerStatuses?.[0]?.state?.terminated?.exitCode, 3);
  await w.restart();
  await w.api.clock.advance(5_000);
  assert.equal((await w.pod('web'))?.status?.phase, 'Failed');
  assert.deepEqual(w.fake.running(), []);
  await w.api.kube.delete(w.api.op, 'pods', { namespace: 'default', name: 'web' });
  await w.until('gone', async () => (await w.pod('web')) === undefined);
  assert.equal(w.fake.containers.size, 0);
});

await test('missing ConfigMap: waits with its reason, and starts when it is there', async (t) => {
  const w = await world(t);
  await apply(w, {
    containers: [
      {
        name: 'main',
        image: 'app:1',
        env: [{ name: 'X', valueFrom: { configMapKeyRef: { name: 'late', key: 'x' } } }],
      },
    ],
  });
  await w.until('waiting', async () => {
    const waiting = (await w.pod('web'))?.status?.containerStatuses?.[0]?.state?.waiting;
    return waiting?.reason === 'CreateContainerConfigError' && waiting.message === 'configmap "late" not found';
  });
  await w.api.kube.create(w.api.op, 'configmaps', {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'late', namespace: 'default' },
    data: { x: '1' },
  });
  await w.until('ready', async () => isReady(await w.pod('web')), 15_000);
  const [container] = w.fake.containers.values();
  assert.equal(container?.config.envs.find(({ key }) => key === 'X')?.value.toString(), '1');
});

await test('an image that cannot be pulled backs off and is found later', async (t) => {
  const w = await world(t);
  await apply(w, { containers: [{ name: 'main', image: 'late:1' }] });
  const reason = async (): Promise<string | undefined> =>
    (await w.pod('web'))?.status?.containerStatuses?.[0]?.state?.waiting?.reason;
  await w.until('ErrImagePull', async () => (await reason()) === 'ErrImagePull');
  await w.until('ImagePullBackOff', async () => (await reason()) === 'ImagePullBackOff');
  w.fake.pullable.add('late:1');
  await w.until('ready', async () => isReady(await w.pod('web')), 15_000);
  assert.deepEqual(
    new Set(await w.events('web')),
    new Set(['Scheduled', 'Pulling', 'Failed', 'BackOff', 'Pulled', 'Created', 'Started']),
  );
});

await test('the hook runs inside the grace period, and what is left of it is the stop timeout', async (t) => {
  const w = await world(t);
  w.fake.onExec.set('main', async (op) => {
    await w.api.clock.sleep(4_000, op.signal);
    return 0;
  });
  w.fake.deafToTerm.add('main');
  await apply(w, {
    terminationGracePeriodSeconds: 10,
    containers: [{ name: 'main', image: 'app:1', lifecycle: { preStop: { exec: { command: ['drain'] } } } }],
  });
  await w.until('ready', async () => isReady(await w.pod('web')));
  const startedMs = w.api.clock.monotonicMs();
  await w.api.kube.delete(w.api.op, 'pods', { namespace: 'default', name: 'web' });
  await w.until('stopped', () => w.fake.running().length === 0);
  const tookMs = w.api.clock.monotonicMs() - startedMs;
  assert.ok(tookMs >= 9_900 && tookMs <= 11_100, String(tookMs));
  const [stop = '', ...more] = w.fake.calls.filter((call) => call.startsWith('stopContainer'));
  assert.deepEqual(more, []);
  // The disk takes real time while the test's clock goes on.
  assert.match(stop, /^stopContainer main [3-6]$/);
  await w.until('gone', async () => (await w.pod('web')) === undefined);
  const told = w.journal.map(({ what }) => what).filter((what) => /^container\.(killing|pre-stop|stopped)$/.test(what));
  assert.deepEqual(told, ['container.killing', 'container.pre-stop', 'container.stopped']);
});

await test('a restart of the agent in the grace period neither restarts it nor repeats the hook', async (t) => {
  const w = await world(t);
  w.fake.deafToTerm.add('main');
  await apply(w, {
    terminationGracePeriodSeconds: 30,
    containers: [{ name: 'main', image: 'app:1', lifecycle: { preStop: { exec: { command: ['drain'] } } } }],
  });
  await w.until('ready', async () => isReady(await w.pod('web')));
  await w.api.kube.delete(w.api.op, 'pods', { namespace: 'default', name: 'web' });
  await w.until('signal sent', () => w.fake.calls.some((call) => call.startsWith('stopContainer')));
  await w.api.clock.advance(12_000);
  await w.restart();
  await w.until('stop again', () => w.fake.calls.filter((call) => call.startsWith('stopContainer')).length === 2);
  const seconds = Number(
    w.fake.calls
      .filter((call) => call.startsWith('stopContainer'))
      .at(-1)
      ?.split(' ')[2],
  );
  assert.ok(seconds <= 18, `${String(seconds)} s of grace after the restart`);
  assert.equal(w.fake.calls.filter((call) => call.startsWith('execSync')).length, 1);
  await w.until('gone', async () => (await w.pod('web')) === undefined);
});

await test('a shorter deletion shortens a running one at once, "now" ends it at once', async (t) => {
  const w = await world(t);
  w.fake.deafToTerm.add('main');
  await apply(w, { terminationGracePeriodSeconds: 300 });
  await w.until('ready', async () => isReady(await w.pod('web')));
  const remove = (gracePeriodSeconds?: number): Promise<unknown> =>
    w.api.kube.delete(w.api.op, 'pods', { namespace: 'default', name: 'web' }, { gracePeriodSeconds });
  await remove();
  await w.until('first', () => w.fake.calls.includes('stopContainer main 300'));
  await remove(60);
  await w.until('shorter', () => w.fake.calls.includes('stopContainer main 60'), 1_000);
  await remove(0);
  await w.until('at once', () => w.fake.running().length === 0, 1_000);
  await w.until('gone', async () => (await w.pod('web')) === undefined, 10_000);
});

/** Of each container: its exit code, if it has ended, and whether it is ready. */
async function ends(w: World): Promise<[name: string, code: number | undefined, ready: boolean][]> {
  const statuses = (await w.pod('web'))?.status?.containerStatuses ?? [];
  return statuses.map(({ name, state, ready }) => [name, state?.terminated?.exitCode, ready]);
}

await test('each container’s end is in the status at once, however long the pod’s sandbox takes to end', async (t) => {
  const w = await world(t);
  for (const name of ['main', 'side']) w.fake.deafToTerm.add(name);
  const hang = Promise.withResolvers<undefined>();
  w.fake.held.set('stopPodSandbox', hang.promise);
  await apply(w, {
    terminationGracePeriodSeconds: 30,
    containers: [
      { name: 'main', image: 'app:1' },
      { name: 'side', image: 'app:1' },
    ],
  });
  await w.until('ready', async () => isReady(await w.pod('web')));
  await w.api.kube.delete(w.api.op, 'pods', { namespace: 'default', name: 'web' });
  await w.until('asked to end', () => w.fake.calls.filter((call) => call.startsWith('stopContainer')).length === 2);
  w.fake.exit('main', 11);
  await w.until('main has ended', async () => (await ends(w))[0]?.[1] === 11, 5_000);
  assert.deepEqual(await ends(w), [
    ['main', 11, false],
    ['side', undefined, true],
  ]);
  await w.until('the sandbox is being stopped', () => w.fake.calls.some((call) => call.startsWith('stopPodSandbox')));
  await w.until('side has ended', async () => (await ends(w))[1]?.[1] === 137, 5_000);
  assert.deepEqual(await ends(w), [
    ['main', 11, false],
    ['side', 137, false],
  ]);
  assert.equal(isReady(await w.pod('web')), false);
  hang.resolve(undefined);
  await w.until('gone', async () => (await w.pod('web')) === undefined);
});

const TWO = {
  containers: [
    { name: 'main', image: 'app:1' },
    { name: 'side', image: 'app:1' },
  ],
};

await test('a container’s end is in the status at once, however long another one’s start takes', async (t) => {
  const w = await world(t);
  await apply(w, TWO);
  await w.until('runs', () => w.fake.running().length === 2);
  const hang = Promise.withResolvers<undefined>();
  w.fake.held.set('startContainer', hang.promise);
  const starts = (): number => w.fake.calls.filter((call) => call.startsWith('startContainer')).length;
  w.fake.exit('main', 1);
  await w.until('main is being started again', () => starts() === 3);
  w.fake.exit('side', 5);
  await w.until('side has ended', async () => (await ends(w))[1]?.[1] === 5, 5_000);
  assert.deepEqual((await ends(w))[1], ['side', 5, false]);
  hang.resolve(undefined);
  await w.until('both run again', () => w.fake.running().length === 2);
});

await test('the removal of an earlier run that hangs keeps no container from being started again', async (t) => {
  const w = await world(t);
  const hang = Promise.withResolvers<undefined>();
  w.fake.held.set('removeContainer', hang.promise);
  await apply(w, TWO);
  await w.until('runs', () => w.fake.running().length === 2);
  const removals = (): string[] => w.fake.calls.filter((call) => call.startsWith('removeContainer'));
  for (const run of [1, 2]) {
    w.fake.exit('main', 1);
    await w.until(`run ${String(run)}`, () => w.fake.running().includes(`main/${String(run)}`), 30_000);
  }
  assert.equal(removals().length, 1, 'asked for once');
  w.fake.exit('side', 5);
  await w.until('side runs again', () => w.fake.running().includes('side/1'), 30_000);
  await w.api.kube.delete(w.api.op, 'pods', { namespace: 'default', name: 'web' });
  await w.until('sandbox stopped', () => w.fake.calls.some((call) => call.startsWith('stopPodSandbox')));
  hang.resolve(undefined);
  await w.until('gone', async () => (await w.pod('web')) === undefined);
});

await test('two containers end side by side, and one that cannot be killed does not hold the other', async (t) => {
  const w = await world(t);
  w.fake.unkillable.add('a');
  w.fake.deafToTerm.add('a');
  await apply(w, {
    terminationGracePeriodSeconds: 3,
    containers: [
      { name: 'a', image: 'app:1' },
      { name: 'b', image: 'app:1' },
    ],
  });
  await w.until('ready', async () => isReady(await w.pod('web')));
  const uid = (await w.pod('web'))?.metadata.uid ?? '';
  await w.api.kube.delete(w.api.op, 'pods', { namespace: 'default', name: 'web' });
  await w.until('b ended', () => !w.fake.running().includes('b/0'), 1_000);
  await w.api.clock.advance(200_000);
  assert.notEqual(await w.pod('web'), undefined);
  assert.ok(w.agent.pendingWork(uid).some(({ what }) => what === 'container a'));
  w.fake.exit('a', 137);
  await w.until('gone', async () => (await w.pod('web')) === undefined, 60_000);
});

await test('a blocked volume does not hold the pod, is named, survives a restart and goes when it can', async (t) => {
  const w = await world(t);
  const made = await apply(w, { volumes: [{ name: 'data', emptyDir: {} }] });
  const { uid } = made.metadata;
  await w.until('ready', async () => isReady(await w.pod('web')));
  const path = join(w.directory, 'pods', uid, 'volumes', 'kubernetes.io~empty-dir', 'data');
  w.blockers.push({
    path,
    reason: 'mount',
    source: 'nas:/share',
    fsType: 'nfs4',
    message: `${path}/nas: nfs4 of nas:/share is mounted there`,
  });
  await w.api.kube.delete(w.api.op, 'pods', { namespace: 'default', name: 'web' });
  await w.until('object gone', async () => (await w.pod('web')) === undefined);
  await w.until('event', async () => (await w.events('web')).includes('TeardownBlocked'));
  const blocked = await w.agent.pendingVolumes();
  assert.deepEqual(
    blocked.map(({ podUid, podName, name, blockers }) => [podUid, podName, name, blockers[0]?.source]),
    [[uid, 'web', 'data', 'nas:/share']],
  );
  assert.ok((await stat(path)).isDirectory());

  const successor = await apply(w, { volumes: [{ name: 'data', emptyDir: {} }] });
  await w.until('successor', async () => isReady(await w.pod('web')));
  assert.notEqual(successor.metadata.uid, uid);

  const pending = (agent: Agent): string[] => agent.pendingWork(uid).map(({ message }) => message);
  await w.restart((agent) => assert.match(pending(agent).join(), /has not looked at everything yet/));
  await w.until('still blocked', async () => {
    assert.notDeepEqual(pending(w.agent), [], 'there is something all the while');
    return (await w.agent.pendingVolumes()).length === 1;
  });
  assert.match(pending(w.agent).join(), /^volume data: its teardown is blocked: [^,]*$/);
  w.blockers.length = 0;
  await w.until('torn down', async () => !(await readdir(join(w.directory, 'pods'))).includes(uid), 10_000);
  assert.deepEqual(await w.agent.pendingVolumes(), []);
  assert.deepEqual(w.fake.running(), ['main/0']);
});

await test('a restarted agent finds what runs and starts nothing twice', async (t) => {
  const w = await world(t);
  await apply(w, { volumes: [{ name: 'data', emptyDir: {} }] });
  await w.until('ready', async () => isReady(await w.pod('web')));
  const started = w.fake.calls.filter((call) => call.startsWith('startContainer')).length;
  await w.restart();
  await w.api.clock.advance(10_000);
  assert.equal(w.fake.calls.filter((call) => call.startsWith('startContainer')).length, started);
  assert.deepEqual(w.fake.running(), ['main/0']);
  assert.ok(isReady(await w.pod('web')));
});

await test('what the API does not know is ended with its own grace and hooks; what carries another id is left alone', async (t) => {
  const w = await world(t);
  await apply(w, {
    containers: [{ name: 'main', image: 'app:1', lifecycle: { preStop: { exec: { command: ['bye'] } } } }],
  });
  await w.until('ready', async () => isReady(await w.pod('web')));
  const [sandbox] = w.fake.sandboxes.values();
  assert.ok(sandbox !== undefined);
  const foreign = { ...sandbox, id: 'foreign', config: structuredClone(sandbox.config) };
  foreign.config.labels['io.gantry.agent'] = 'somebody-else';
  w.fake.sandboxes.set('foreign', foreign);
  const { uid } = (await w.pod('web'))?.metadata ?? { uid: '' };
  const stopped = w.agent.stop();
  await w.api.clock.advance(2_000);
  await stopped;
  // The object goes while no agent looks.
  await w.api.kube.delete(w.api.op, 'pods', { namespace: 'default', name: 'web' });
  const options = { gracePeriodSeconds: 0, preconditions: { uid } };
  await w.api.kube.delete(w.api.op, 'pods', { namespace: 'default', name: 'web' }, options);
  await w.restart();
  await w.until('ended', () => w.fake.sandboxes.size === 1 && w.fake.containers.size === 0);
  assert.deepEqual([...w.fake.sandboxes.keys()], ['foreign']);
  assert.ok(w.fake.calls.includes('execSync main'));
  await w.until('directory gone', async () => (await readdir(join(w.directory, 'pods'))).length === 0);
});

await test('images as volumes are pulled beside the container’s own, and one that cannot be holds the container up', async (t) => {
  const w = await world(t);
  w.fake.pullable.add('model:1');
  const mount = { name: 'model', mountPath: '/model' };
  const container = {
    name: 'main',
    image: 'app:1',
    volumeMounts: [mount, { ...mount, name: 'other', mountPath: '/o' }],
  };
  await apply(w, {
    containers: [container],
    volumes: [
      { name: 'model', image: { reference: 'model:1', pullPolicy: 'IfNotPresent' } },
      { name: 'other', image: { reference: 'nowhere:1', pullPolicy: 'IfNotPresent' } },
      { name: 'unused', image: { reference: 'nowhere:2', pullPolicy: 'Always' } },
    ],
  });
  const waiting = async (): Promise<string> => {
    const { reason, message } = (await w.pod('web'))?.status?.containerStatuses?.[0]?.state?.waiting ?? {};
    return `${reason ?? ''}: ${message ?? ''}`;
  };
  await w.until('back-off', async () => (await waiting()).startsWith('ImagePullBackOff'));
  assert.match(await waiting(), /^ImagePullBackOff: volume "other": Back-off pulling image "nowhere:1"/);
  assert.equal(w.fake.containers.size, 0);
  w.fake.pullable.add('nowhere:1');
  await w.until('ready', async () => isReady(await w.pod('web')), 60_000);
  const [made] = w.fake.containers.values();
  assert.deepEqual(
    made?.config.mounts
      .map(({ containerPath, image, readonly }) => [containerPath, image?.image, readonly])
      .slice(0, 2),
    [
      ['/model', 'sha256:model:1', true],
      ['/o', 'sha256:nowhere:1', true],
    ],
  );
  assert.deepEqual(w.fake.calls.filter((call) => call.startsWith('pullImage')).sort(), [
    'pullImage model:1',
    'pullImage nowhere:1',
    'pullImage nowhere:1',
  ]);
});

await test('a pod that can never run here is over before it begins, says why, and stays so', async (t) => {
  const w = await world(t, { hasAppArmor: () => Promise.resolve(false) });
  const { uid } = (await apply(w, { securityContext: { appArmorProfile: { type: 'RuntimeDefault' } } })).metadata;
  await w.until('rejected', async () => (await w.pod('web'))?.status?.phase === 'Failed');
  const told = async (): Promise<unknown[]> => {
    const { status } = (await w.pod('web')) ?? {};
    return [status?.phase, status?.reason, status?.message, status?.containerStatuses];
  };
  const message = 'Cannot enforce AppArmor: AppArmor is not enabled on the host';
  assert.deepEqual(await told(), ['Failed', 'AppArmor', message, []]);
  await w.until('told of', async () => (await w.events('web')).includes('AppArmor'));
  await w.restart();
  await w.api.clock.advance(120_000);
  assert.deepEqual(await told(), ['Failed', 'AppArmor', message, []]);
  assert.deepEqual([w.fake.sandboxes.size, w.fake.containers.size], [0, 0]);
  await w.api.kube.delete(w.api.op, 'pods', { namespace: 'default', name: 'web' });
  await w.until('gone', async () => (await w.pod('web')) === undefined);
  assert.ok(!(await readdir(join(w.directory, 'pods'))).includes(uid));
});

await test('users of its own: refused until the runtime has them, the same after a restart, given back at the end', async (t) => {
  const w = await world(t);
  const { uid } = (await apply(w, { hostUsers: false })).metadata;
  await w.until('told of', async () => (await w.events('web')).includes('FailedCreatePodSandBox'));
  assert.ok(
    !w.fake.calls.some((call) => call.startsWith('runPodSandbox')),
    'a runtime that does not know it would leave it out',
  );
  w.fake.features = { userNamespaces: true };
  await w.until('ready', async () => isReady(await w.pod('web')), 60_000);
  const [sandbox] = w.fake.sandboxes.values();
  const { uids = [] } = sandbox?.config.linux?.securityContext?.namespaceOptions?.usernsOptions ?? {};
  const file = join(w.directory, 'pods', uid, 'userns');
  assert.deepEqual(JSON.parse(await readFile(file, 'utf8')), { uidMappings: uids, gidMappings: uids });

  await w.restart();
  w.fake.exit('main', 1);
  await w.until('second run', () => w.fake.running().includes('main/1'), 30_000);
  const last = [...w.fake.containers.values()].at(-1);
  assert.deepEqual(last?.config.linux?.securityContext?.namespaceOptions?.usernsOptions?.uids, uids);
  await w.api.kube.delete(w.api.op, 'pods', { namespace: 'default', name: 'web' });
  await w.until('gone', async () => (await w.pod('web')) === undefined);
  assert.deepEqual(await readdir(join(w.directory, 'pods')), []);
});

await test('a lost sandbox is made again, and the pod goes on in the new one', async (t) => {
  const w = await world(t);
  await apply(w, {});
  await w.until('ready', async () => isReady(await w.pod('web')));
  for (const sandbox of w.fake.sandboxes.values()) sandbox.ready = false;
  w.fake.exit('main', 137);
  await w.until('again', () => w.fake.running().includes('main/1'));
  await w.until('ready', async () => isReady(await w.pod('web')));
  assert.ok((await w.events('web')).includes('SandboxChanged'));
  // Its dead are kept, and its address is not.
  const [lost] = w.fake.sandboxes.keys();
  const stops = (): string[] => w.fake.calls.filter((call) => call.startsWith('stopPodSandbox'));
  await w.until('the old one is stopped', () => stops().length > 0);
  await w.api.clock.advance(180_000);
  assert.deepEqual(stops(), [`stopPodSandbox ${lost ?? ''}`]);
  assert.equal(w.fake.sandboxes.size, 2);
});

await test('a sandbox that cannot be made is told of and tried again', async (t) => {
  const w = await world(t);
  w.fake.failNext.set('runPodSandbox', [new Error('no network'), new Error('no network')]);
  await apply(w, {});
  await w.until('ready', async () => isReady(await w.pod('web')), 30_000);
  assert.ok((await w.events('web')).includes('FailedCreatePodSandBox'));
});

await test('a sandbox that fails and is left behind is tried again at its time, not whenever the old one stirs', async (t) => {
  const w = await world(t);
  w.fake.sandboxProblem = new Error('no network');
  const { metadata } = await apply(w, {});
  const tries = (): number => w.fake.calls.filter((call) => call.startsWith('runPodSandbox')).length;
  await w.until('tried', () => tries() > 2, 30_000);
  const endMs = w.api.clock.monotonicMs() + 30_000;
  await w.until('half a minute', () => w.api.clock.monotonicMs() >= endMs, 60_000);
  assert.ok(tries() < 12, `${String(tries())} tries`);
  assert.ok(w.agent.pendingWork(metadata.uid).some(({ lastError }) => lastError === 'no network'));
  w.fake.sandboxProblem = undefined;
  await w.until('ready', async () => isReady(await w.pod('web')), 30_000);
  assert.ok(w.agent.pendingWork(metadata.uid).every(({ lastError }) => lastError === undefined));
});

await test('a deletion breaks off a slow creation, and nothing of it is left', async (t) => {
  const w = await world(t);
  w.fake.slowSandboxMs = 100_000;
  await apply(w, { volumes: [{ name: 'data', emptyDir: {} }] });
  await w.until('begun', () => w.fake.calls.includes('runPodSandbox web'));
  await w.api.kube.delete(w.api.op, 'pods', { namespace: 'default', name: 'web' });
  await w.until('gone', async () => (await w.pod('web')) === undefined, 10_000);
  // The runtime, asked to stop, finishes all the same: what it made has no owner, and is found.
  await w.until('late sandbox', () => w.fake.calls.some((call) => call.startsWith('removePodSandbox')), 120_000);
  await w.until('nothing left', () => w.fake.sandboxes.size === 0);
  assert.deepEqual(await readdir(join(w.directory, 'pods')), []);
});

await test('a missing ConfigMap volume is told of once and mounted when it is there', async (t) => {
  const w = await world(t);
  const made = await apply(w, { volumes: [{ name: 'conf', configMap: { name: 'late' } }] });
  await w.until('event', async () => (await w.events('web')).includes('FailedMount'));
  assert.ok(
    w.agent
      .pendingWork(made.metadata.uid)
      .some(({ message }) => message.includes('configmap "default/late" not found')),
  );
  await w.api.clock.advance(30_000);
  assert.equal(w.journal.filter(({ what }) => what === 'volume.mount-failed').length, 1);
  await w.api.kube.create(w.api.op, 'configmaps', {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'late', namespace: 'default' },
    data: { x: '1' },
  });
  await w.until('ready', async () => isReady(await w.pod('web')), 15_000);
});

await test('the node is registered and says when the runtime is not well', async (t) => {
  const w = await world(t);
  const condition = async (): Promise<NodeCondition | undefined> =>
    (await w.api.kube.list(w.api.op, 'nodes')).items[0]?.status?.conditions?.find(({ type }) => type === 'Ready');
  const ready = async (): Promise<string | undefined> => (await condition())?.status;
  await w.until('ready', async () => (await ready()) === 'True');
  w.fake.problem = 'NetworkReady';
  await w.until('not ready', async () => (await ready()) === 'False', 15_000);
  const { reason, message } = (await condition()) ?? {};
  assert.deepEqual({ reason, message }, { reason: 'Test', message: 'the pod network is not ready' });
  await w.api.kube.delete(w.api.op, 'nodes', { name: 'node-1' });
  await w.until('registered anew', async () => (await ready()) === 'False', 15_000);
  w.fake.problem = undefined;
  await w.until('ready again, by itself', async () => (await ready()) === 'True', 15_000);
  w.fake.problem = 'RuntimeReady';
  await w.until('not ready either', async () => (await condition())?.reason === 'KubeletNotReady', 15_000);
});
