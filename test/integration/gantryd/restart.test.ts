import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { get } from 'node:http';
import { after, afterEach, before, describe, test } from 'node:test';
import { connectCri, type CriConnection } from '../../../src/cri/client.ts';
import { ContainerState } from '../../../src/cri/gen/api.ts';
import { connectApi } from '../../../src/kube/http/connect.ts';
import { isKind, messageOf } from '../../../src/lib/errors.ts';
import { isAlive, processIdentity, type ProcessKey } from '../../../src/linux/procfs.ts';
import { eventually, freePort, Gantryd, IMAGE, op, podOf } from '../../support/gantryd.ts';
import { LeakCheck } from '../../support/leak-check.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const EXAMPLE = new URL('../../../examples/hello.yaml', import.meta.url).pathname;
/** So many milliseconds after the request the daemon is killed: at its first step, at its last ones, and between. */
const MOMENTS = [0, 120, 400];
const BETWEEN_QUESTIONS_MS = 20;

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** What /readyz says: `nobody`, or the code and the words. */
async function readiness(socketPath: string): Promise<string> {
  return await new Promise((resolve) => {
    get({ socketPath, path: '/readyz', agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', () => resolve('nobody'));
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString();
        if (response.statusCode === 200) resolve(`200 ${text}`);
        else {
          const { reason, message } = JSON.parse(text) as { reason: string; message: string };
          resolve(`${String(response.statusCode)} ${reason}: ${message}`);
        }
      });
    }).on('error', () => resolve('nobody'));
  });
}

describe('a daemon that ends, by SIGKILL or SIGTERM, and the one after it', { skip }, () => {
  let daemon: Gantryd;
  let leaks: LeakCheck;

  before(async () => {
    daemon = await Gantryd.withImage();
    leaks = await LeakCheck.begin(daemon.root.leakRoots([{ path: daemon.root.logRoot }]));
  });
  afterEach(() => daemon.endPods());
  after(async () => {
    await daemon[Symbol.asyncDispose]();
  });

  /** The first process of each container, by the container's name. */
  const identities = async (name: string): Promise<Record<string, ProcessKey>> => {
    const found: Record<string, ProcessKey> = {};
    for (const [container, pid] of [...(await daemon.pids(name))].sort()) {
      const identity = await processIdentity(pid);
      if (identity !== undefined) found[container] = { pid, startTimeTicks: identity.startTimeTicks };
    }
    return found;
  };

  test('whoever asks too early is told so, and nobody gets a wrong answer', async () => {
    const socketPath = daemon.root.apiSocket;
    await daemon.create(podOf('early', [{}]));
    await daemon.ready('early');
    const answers: string[] = [];
    const lists: number[] = [];
    const restarted = { yet: false };
    const restart = daemon.restart('SIGKILL').then(() => (restarted.yet = true));
    while (!restarted.yet) {
      answers.push(await readiness(socketPath));
      const api = await connectApi(`unix://${socketPath}`);
      const pods = await api.kube.list(op, 'pods', { namespace: 'default' }).catch((error: unknown) => {
        assert.match(messageOf(error), /nobody answers at .*: is gantryd running\?|connection/, String(error));
      });
      if (pods !== undefined) lists.push(pods.items.length);
      await api.close();
      // On a busy machine the questions would take the processor away from who is to answer them.
      await pause(BETWEEN_QUESTIONS_MS);
    }
    await restart;
    assert.ok(answers.length > 0);
    for (const answer of answers) {
      assert.match(answer, /^(?:nobody|200 ok|503 ServiceUnavailable: the (?:runtime|agent) is still looking at .+)$/);
    }
    // In that order, and never back.
    const stage = (answer: string): number => ['n', '5', '2'].indexOf(answer[0] ?? '');
    assert.deepEqual(
      answers.map(stage),
      answers.map(stage).toSorted((a, b) => a - b),
    );
    assert.deepEqual([...new Set(lists)], [1], 'from the first answer on all pods are there');
    assert.equal(await readiness(socketPath), '200 ok');
    await daemon.ready('early');
  });

  test('the example serves on in the same processes, and can be used and deleted as before', async () => {
    const port = await freePort();
    const manifest = (await readFile(EXAMPLE, 'utf8')).replace('hostPort: 8080', `hostPort: ${String(port)}`);
    const page = async (): Promise<string> => {
      const answer = await fetch(`http://127.0.0.1:${String(port)}/`, { signal: AbortSignal.timeout(60_000) });
      return await answer.text();
    };
    await daemon.apply(manifest, '--wait', '--timeout', '300s');
    await eventually(
      () => page().catch(() => ''),
      (text) => text.includes('Hello from a pod'),
      'the page',
    );
    const before = await identities('hello');
    const podBefore = await daemon.pod('hello');
    assert.deepEqual(Object.keys(before), ['server', 'writer']);
    for (const signal of ['SIGKILL', 'SIGTERM', 'SIGKILL'] as const) {
      await daemon.restart(signal, async () => {
        assert.match(await page(), /Hello from a pod/);
        for (const identity of Object.values(before)) assert.ok(await isAlive(identity));
      });
      assert.match(await page(), /Hello from a pod/);
      assert.deepEqual(await identities('hello'), before);
      const pod = await daemon.ready('hello');
      assert.equal(pod.metadata.uid, podBefore?.metadata.uid);
      assert.deepEqual(
        pod.status?.containerStatuses?.map(({ containerID, restartCount }) => [containerID, restartCount]),
        podBefore?.status?.containerStatuses?.map(({ containerID, restartCount }) => [containerID, restartCount]),
      );
      assert.equal(pod.status?.podIP, podBefore?.status?.podIP);
    }
    assert.equal(await daemon.gantry('exec', 'hello', '-c', 'writer', '--', 'hostname'), 'hello\n');
    assert.match(await daemon.gantry('logs', 'hello', '-c', 'writer'), /^writer: page 1 written\n/);
    const path = `${daemon.root.dir}/hello.yaml`;
    await writeFile(path, manifest);
    await daemon.gantry('delete', '-f', path);
    assert.match(await daemon.gantry('explain', 'pod', 'hello'), /the preStop hook has run[^]*Nothing is pending\./);
    await leaks.assertNone();
  });

  test('asked over CRI in its first moment, it answers of nothing that it has not looked at', async () => {
    const waits = 'trap "exit 5" TERM; while :; do sleep 1 & wait $!; done';
    await daemon.create(podOf('asked', [{ script: waits }, { script: waits }], { restartPolicy: 'Never' }));
    await daemon.ready('asked');
    const { main, c1 } = await identities('asked');
    assert.ok(main && c1);
    const { containers } = await daemon.cri.runtime.listContainers(op, { filter: undefined });
    const idOf = (name: string): string => containers.find(({ metadata }) => metadata?.name === name)?.id ?? '';
    const restart = daemon.restart('SIGKILL', async () => {
      process.kill(main.pid, 'SIGTERM');
      await eventually(
        () => isAlive(main),
        (alive) => !alive,
        'its end',
      );
    });
    await eventually(
      async () => (await readiness(daemon.root.apiSocket)) === 'nobody',
      (gone) => gone,
      'the end of the daemon',
    );
    /** Of the first daemon that answers. */
    const first = async <T>(ask: (cri: CriConnection) => Promise<T>): Promise<T> => {
      for (;;) {
        const cri = connectCri(daemon.root.criSocket);
        try {
          return await ask(cri);
        } catch (error) {
          if (!isKind(error, 'Unavailable')) throw error;
        } finally {
          cri.close();
        }
      }
    };
    const [stopped, executed] = await Promise.all([
      first(async ({ runtime }) => {
        await runtime.stopContainer(op, { containerId: idOf('main'), timeout: 30n });
        return (await runtime.containerStatus(op, { containerId: idOf('main'), verbose: false })).status;
      }),
      first(({ runtime }) => runtime.execSync(op, { containerId: idOf('c1'), cmd: ['echo', 'there'], timeout: 30n })),
      restart,
    ]);
    assert.deepEqual([stopped?.state, stopped?.exitCode], [ContainerState.CONTAINER_EXITED, 5]);
    assert.equal(executed.stdout.toString(), 'there\n');
    assert.deepEqual((await identities('asked'))['c1'], c1);
    await daemon.gantry('delete', 'pod', 'asked');
    await leaks.assertNone();
  });

  test('a container that ends while no daemon runs is seen, with its own exit code, and started again', async () => {
    await daemon.apply(
      podOf('restarts', [{ script: 'echo begun; trap "exit 5" TERM; while :; do sleep 1 & wait $!; done' }]),
      '--wait',
    );
    const { main: identity } = await identities('restarts');
    assert.ok(identity);
    await daemon.restart('SIGKILL', async () => {
      process.kill(identity.pid, 'SIGTERM');
      await eventually(
        () => isAlive(identity),
        (alive) => !alive,
        'its end',
      );
    });
    const pod = await daemon.podWhen(
      'restarts',
      ({ status }) => status?.containerStatuses?.[0]?.restartCount === 1 && status.containerStatuses[0].ready,
      'running again',
    );
    assert.equal(pod.status?.containerStatuses?.[0]?.lastState?.terminated?.exitCode, 5);
    assert.equal(await daemon.gantry('logs', '-p', 'restarts'), 'begun\n');
    await daemon.gantry('delete', 'pod', 'restarts');
    await leaks.assertNone();
  });

  test('killed at any moment of a start: the next daemon gets the pod up, once', async () => {
    for (const moment of MOMENTS) {
      const name = `start-${String(moment)}`;
      const volumes = [{ name: 'data', emptyDir: {} }];
      const volumeMounts = [{ name: 'data', mountPath: '/data' }];
      await daemon.create(podOf(name, [{ volumeMounts }, { volumeMounts }], { volumes }));
      await pause(moment);
      await daemon.restart('SIGKILL');
      await daemon.ready(name);
      const { containers } = await daemon.cri.runtime.listContainers(op, { filter: undefined });
      const running = containers.filter(
        ({ labels, state }) => labels['io.kubernetes.pod.name'] === name && state === ContainerState.CONTAINER_RUNNING,
      );
      assert.deepEqual(running.map(({ metadata }) => metadata?.name).sort(), ['c1', 'main']);
      await daemon.delete(name, 3);
      await daemon.gone(name);
    }
    await leaks.assertNone();
  });

  test('killed at any moment of an end: the next daemon finishes it', async () => {
    for (const moment of MOMENTS) {
      const name = `end-${String(moment)}`;
      const volumes = [
        { name: 'data', emptyDir: {} },
        { name: 'memory', emptyDir: { medium: 'Memory', sizeLimit: '1Mi' } },
      ];
      const volumeMounts = [
        { name: 'data', mountPath: '/data' },
        { name: 'memory', mountPath: '/memory' },
      ];
      const lifecycle = { preStop: { exec: { command: ['/bin/sh', '-c', 'echo hook; sleep 0.1'] } } };
      await daemon.create(podOf(name, [{ volumeMounts, lifecycle }, { volumeMounts }], { volumes }));
      await daemon.ready(name);
      await daemon.delete(name);
      await pause(moment);
      await daemon.restart('SIGKILL');
      await daemon.gone(name);
    }
    await leaks.assertNone();
  });

  test('SIGTERM in the middle of an end: the rest of the grace is kept, not begun anew', async () => {
    await daemon.create(
      podOf('stubborn', [{ script: 'trap "" TERM; while :; do sleep 1; done' }], { terminationGracePeriodSeconds: 6 }),
    );
    await daemon.ready('stubborn');
    const began = performance.now();
    await daemon.delete('stubborn');
    await daemon.eventWhen('stubborn', 'Killing', /main/);
    await daemon.restart('SIGTERM');
    await daemon.gone('stubborn');
    assert.ok(performance.now() - began > 5_000, 'it had its grace');
    const story = await daemon.gantry('explain', 'pod', 'stubborn');
    assert.match(story, /SIGKILL sent/);
    assert.match(story, /ended with code 137/);
    await leaks.assertNone();
  });

  test('a second daemon on the same root is refused, and harms nothing', async () => {
    await daemon.apply(podOf('alone', [{}]), '--wait');
    const before = await identities('alone');
    const second = await Gantryd.make({ root: daemon.root });
    await assert.rejects(second.start(), /another gantryd is running on/);
    assert.deepEqual(await identities('alone'), before);
    assert.equal(await daemon.gantry('exec', 'alone', '--', 'echo', 'still here'), 'still here\n');
    await daemon.gantry('delete', 'pod', 'alone');
    await leaks.assertNone();
    assert.ok((await daemon.gantry('image', 'list')).includes(IMAGE));
  });
});
