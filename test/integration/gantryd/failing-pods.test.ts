import assert from 'node:assert/strict';
import { rename, unlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import type { ContainerStatus, Pod } from '../../../src/kube/objects.ts';
import { execFile } from '../../../src/linux/exec.ts';
import { eventually, Gantryd, op, podOf } from '../../support/gantryd.ts';
import { busyboxRootfs } from '../../support/busybox.ts';
import {
  blobOf,
  damagedLayer,
  hostPlatform,
  imageOf,
  indexOf,
  layerOf,
  layerOfTar,
  type Image,
} from '../../support/images.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { TestRegistry } from '../../support/registry.ts';
import { tarOf } from '../../support/tar.ts';

const skip = process.getuid?.() !== 0 && 'needs root';

const first = (pod: Pod): ContainerStatus | undefined => pod.status?.containerStatuses?.[0];
const waitingWith =
  (...reasons: readonly string[]) =>
  (pod: Pod): boolean =>
    reasons.includes(first(pod)?.state?.waiting?.reason ?? '');

describe('pods that fail, each with a clear reason', { skip }, () => {
  let daemon: Gantryd;
  let registry: TestRegistry;
  let leaks: LeakCheck;

  before(async () => {
    daemon = await Gantryd.withImage();
    registry = await TestRegistry.start();
    await daemon.root.allowPlainHttp(registry.host);
    leaks = await LeakCheck.begin(daemon.root.leakRoots([{ path: daemon.root.logRoot }]));
  });
  afterEach(() => daemon.endPods());
  after(async () => {
    await daemon[Symbol.asyncDispose]();
    await registry[Symbol.asyncDispose]();
  });

  test('restartPolicy Never: the phases and exit codes of containers that ended', async () => {
    const never = { restartPolicy: 'Never' };
    await daemon.apply(podOf('good', [{ script: 'exit 0' }, { script: 'sleep 1' }], never));
    await daemon.apply(podOf('bad', [{ script: 'exit 42' }, { script: 'exit 0' }], never));
    await daemon.apply(podOf('killed', [{}], never));
    const good = await daemon.podWhen('good', ({ status }) => status?.phase === 'Succeeded', 'Succeeded');
    assert.deepEqual(
      good.status?.containerStatuses?.map(({ state }) => [state?.terminated?.reason, state?.terminated?.exitCode]),
      [
        ['Completed', 0],
        ['Completed', 0],
      ],
    );
    const bad = await daemon.podWhen('bad', ({ status }) => status?.phase === 'Failed', 'Failed');
    const ended = bad.status?.containerStatuses?.find(({ name }) => name === 'main')?.state?.terminated;
    assert.deepEqual([ended?.reason, ended?.exitCode], ['Error', 42]);
    assert.ok(ended?.startedAt !== undefined && ended.finishedAt !== undefined);
    assert.match(await daemon.gantry('get', 'pods'), /bad .*Error[^]*good .*Completed/);
    // By somebody who is no part of Gantry.
    await daemon.ready('killed');
    const pid = (await daemon.pids('killed')).get('main');
    assert.ok(pid);
    process.kill(pid, 'SIGKILL');
    const killed = await daemon.podWhen('killed', ({ status }) => status?.phase === 'Failed', 'Failed');
    assert.equal(first(killed)?.state?.terminated?.exitCode, 137);
    // What has ended keeps its log until it is deleted.
    assert.equal((await daemon.cli(['logs', 'good', '-c', 'main'])).code, 0);
    await daemon.gantry('delete', 'pods', '--all');
    await leaks.assertNone();
  });

  test('a network that its plug-in refuses leaves nothing behind, however often it is tried', async (t) => {
    const { root } = daemon;
    const file = join(root.cniConfDir, '10-net.conflist');
    t.after(() => unlink(file));
    t.after(() => execFile(op, 'ip', ['link', 'delete', `br${root.instance}`]));
    const ipam = { type: 'host-local', subnet: 'nonsense', dataDir: root.cniDataDir };
    const plugins = [{ type: 'bridge', bridge: `br${root.instance}`, ipam }];
    await writeFile(file, JSON.stringify({ cniVersion: '1.0.0', name: `net-${root.instance}`, plugins }));
    await daemon.apply(podOf('unconnected', [{}]));
    await eventually(
      () => daemon.gantry('explain', 'pod', 'unconnected'),
      (story) => (story.match(/Failed to create pod sandbox/g) ?? []).length > 2,
      'the third try',
    );
    await daemon.gantry('delete', 'pod', 'unconnected');
    const story = await daemon.gantry('explain', 'pod', 'unconnected');
    assert.match(story, /CNI DEL is done without, as nothing is held any more: .*nonsense/);
    assert.match(story, /Nothing is pending/);
    assert.doesNotMatch(story, /network cleanup deferred/);
    assert.match(await daemon.gantry('doctor'), /nothing of it is left over and nothing is missing/);
  });

  test('crash back-off: started again, later each time, and the wait is visible', async () => {
    await daemon.apply(podOf('crash', [{ script: 'echo try; exit 1' }], { restartPolicy: 'OnFailure' }));
    const pod = await daemon.podWhen(
      'crash',
      (found) => (first(found)?.restartCount ?? 0) >= 1 && waitingWith('CrashLoopBackOff')(found),
      'in back-off after a restart',
    );
    assert.match(first(pod)?.state?.waiting?.message ?? '', /back-off \d+s restarting failed container/);
    assert.equal(first(pod)?.lastState?.terminated?.exitCode, 1);
    assert.equal(pod.status?.phase, 'Running');
    assert.match(await daemon.gantry('get', 'pods'), /crash +0\/1 +CrashLoopBackOff +[1-9]/);
    assert.equal(await daemon.gantry('logs', '-p', 'crash'), 'try\n');
    await daemon.eventWhen('crash', 'BackOff', /restarting failed container/);
    await daemon.gantry('delete', 'pod', 'crash');
    await leaks.assertNone();
  });

  test('OnFailure: a success is the end of it', async () => {
    const script = 'test -e /data/second && exit 0; touch /data/second; exit 1';
    const volumes = [{ name: 'data', emptyDir: {} }];
    const volumeMounts = [{ name: 'data', mountPath: '/data' }];
    await daemon.apply(podOf('second', [{ script, volumeMounts }], { restartPolicy: 'OnFailure', volumes }));
    const pod = await daemon.podWhen('second', ({ status }) => status?.phase === 'Succeeded', 'Succeeded');
    assert.equal(first(pod)?.restartCount, 1);
    await daemon.gantry('delete', 'pod', 'second');
    await leaks.assertNone();
  });

  test('a command that does not exist: StartError, 128, in the words of the runtime', async () => {
    await daemon.apply(podOf('nothing', [{ command: ['/no/such/program'] }], { restartPolicy: 'Never' }));
    const pod = await daemon.podWhen('nothing', ({ status }) => status?.phase === 'Failed', 'Failed');
    const ended = first(pod)?.state?.terminated;
    assert.equal(ended?.reason, 'StartError');
    assert.equal(ended.exitCode, 128);
    assert.match(ended.message ?? '', /\/no\/such\/program/);
    const waiting = await daemon.cli(
      ['apply', '-f', '-', '--wait'],
      JSON.stringify(podOf('nothing', [{ command: ['/no/such/program'] }], { restartPolicy: 'Never' })),
    );
    assert.equal(waiting.code, 1);
    assert.match(waiting.stderr, /pod\/nothing will not become ready/);
    await daemon.gantry('delete', 'pod', 'nothing');
    await leaks.assertNone();
  });

  test('more memory than the limit: OOMKilled', async () => {
    const resources = { limits: { memory: '24Mi' } };
    const script = 'x=0123456789abcdef; while :; do x=$x$x; done';
    await daemon.apply(podOf('hungry', [{ script, resources }], { restartPolicy: 'Never' }));
    const pod = await daemon.podWhen('hungry', ({ status }) => status?.phase === 'Failed', 'Failed');
    assert.equal(first(pod)?.state?.terminated?.reason, 'OOMKilled');
    assert.equal(first(pod)?.state?.terminated?.exitCode, 137);
    await daemon.gantry('delete', 'pod', 'hungry');
    await leaks.assertNone();
  });

  test('an image that must not be pulled and is not there; a name that is none', async () => {
    await daemon.apply(podOf('never', [{ image: 'localhost/not/there:1' }]));
    const pod = await daemon.podWhen('never', waitingWith('ErrImageNeverPull'), 'ErrImageNeverPull');
    assert.match(first(pod)?.state?.waiting?.message ?? '', /not present with pull policy of Never/);
    await daemon.apply(podOf('noname', [{ image: 'UPPER CASE', imagePullPolicy: 'IfNotPresent' }]));
    await daemon.podWhen('noname', waitingWith('InvalidImageName'), 'InvalidImageName');
    await daemon.gantry('delete', 'pods', '--all');
    await leaks.assertNone();
  });

  /** Like the good one, but for a layer of its own. */
  const imageWith = async (name: string, platform = hostPlatform()): Promise<Image> =>
    imageOf([await layerOf(name.repeat(500))], { platform });
  const pushed = (repository: string, image: Image): string => {
    registry.push(repository, image, '1');
    return `${registry.host}/${repository}:1`;
  };

  const failures: readonly (readonly [title: string, words: RegExp, push: () => Promise<string>])[] = [
    ['an unknown host', /no-such-host\.invalid/, () => Promise.resolve('no-such-host.invalid/a/b:1')],
    ['404', /not found|404/i, () => Promise.resolve(`${registry.host}/no/such:1`)],
    [
      '401',
      /unauthori[sz]ed|401|denied|login|credential/i,
      async () => {
        registry.fail('/secret/', { kind: 'status', status: 401 });
        return pushed('secret/image', await imageWith('secret'));
      },
    ],
    [
      'a wrong digest',
      /digest/i,
      async () => {
        registry.fail('/wrong/bytes/blobs', { kind: 'wrong-bytes' });
        return pushed('wrong/bytes', await imageWith('wrong'));
      },
    ],
    [
      'a truncated blob',
      /\bof\b|ended early|closed|truncated|incomplete|aborted|cut|terminated/i,
      async () => {
        registry.fail('/cut/short/blobs', { kind: 'truncate' });
        return pushed('cut/short', await imageWith('short'));
      },
    ],
    [
      'corrupt gzip',
      /gzip|compress|corrupt|inflate|header|data/i,
      async () => {
        const layer = await layerOf('x');
        return pushed('corrupt/gzip', imageOf([damagedLayer(layer, Buffer.alloc(300, 0xa5))]));
      },
    ],
    [
      'another platform only',
      /platform|linux\/|architecture/i,
      async () => {
        const platform = { os: 'linux', architecture: 's390x' };
        const image = await imageWith('other', platform);
        registry.push('other/platform', image);
        registry.pushManifest('other/platform', indexOf([{ image, platform }]), '1');
        return `${registry.host}/other/platform:1`;
      },
    ],
    [
      'not an image',
      /not an image|manifest|media ?type|unsupported/i,
      () => {
        registry.pushManifest('not/image', blobOf('application/vnd.example.thing+json', '{"a":1}'), '1');
        return Promise.resolve(`${registry.host}/not/image:1`);
      },
    ],
  ];

  test('an image that cannot be pulled: ErrImagePull, then ImagePullBackOff, with the cause', async () => {
    const names: (readonly [name: string, words: RegExp])[] = [];
    for (const [index, [, words, push]] of failures.entries()) {
      const name = `pull-${String(index)}`;
      await daemon.apply(podOf(name, [{ image: await push(), imagePullPolicy: 'IfNotPresent' }]));
      names.push([name, words]);
    }
    for (const [index, [name, words]] of names.entries()) {
      const title = failures[index]?.[0] ?? '';
      const event = await daemon.eventWhen(name, 'Failed', /^Failed to pull image/);
      assert.match(event.message ?? '', words, title);
      const pod = await daemon.podWhen(name, waitingWith('ErrImagePull', 'ImagePullBackOff'), title);
      assert.equal(pod.status?.phase, 'Pending', title);
    }
    const [[name] = ['']] = names;
    await daemon.podWhen(name, waitingWith('ImagePullBackOff'), 'back-off');
    assert.match(await daemon.gantry('get', 'pods'), /ImagePullBackOff|ErrImagePull/);
    const direct = await daemon.cli(['image', 'pull', `${registry.host}/no/such:1`]);
    assert.equal(direct.code, 1);
    assert.match(direct.stderr, /not found|404/i);
    await daemon.gantry('delete', 'pods', '--all');
    // Of what was pulled in part nothing is left that is not tidied or taken up again.
    await leaks.assertNone({ only: ['processes', 'mounts', 'network namespaces', 'CNI addresses', 'cgroups'] });
  });

  test('a pull that works at last: the pod comes up by itself', async () => {
    const layer = layerOfTar(await tarOf(await busyboxRootfs()), 'zstd');
    registry.fail('/v2/late/', { kind: 'status', status: 503 }, 6);
    const reference = pushed('late/image', imageOf([layer], { config: { Env: ['PATH=/bin', 'GREETING=hello'] } }));
    await daemon.apply(podOf('late', [{ image: reference, imagePullPolicy: 'Always' }]), '--wait', '--timeout', '600s');
    assert.equal(await daemon.gantry('exec', 'late', '--', 'sh', '-c', 'echo $GREETING'), 'hello\n');
    await daemon.gantry('delete', 'pod', 'late');
    assert.match(await daemon.gantry('image', 'pull', reference), /late\/image/);
    await daemon.gantry('image', 'rm', reference);
  });

  test('a port that is taken is named, and the pod comes up when it is free', async () => {
    const server = createServer();
    await new Promise<void>((resolve) => {
      server.listen(0, '0.0.0.0', resolve);
    });
    const { port } = server.address() as AddressInfo;
    const ports = [{ containerPort: 80, hostPort: port }];
    const manifest = JSON.stringify(podOf('port', [{ ports }]));
    const late = await daemon.cli(['apply', '-f', '-', '--wait', '--timeout', '20s'], manifest);
    assert.equal(late.code, 1);
    const words = `^error: pod/port not ready within 20 s: \\S+ \\(FailedCreatePodSandBox: .*${String(port)}.*\\)$`;
    assert.match(late.stderr, new RegExp(words, 'm'));
    const event = await daemon.eventWhen('port', 'FailedCreatePodSandBox', new RegExp(String(port)));
    assert.match(event.message ?? '', /in use|taken|already/i);
    await new Promise((resolve) => server.close(resolve));
    await daemon.ready('port');
    await daemon.apply(podOf('rival', [{ ports }]));
    await daemon.eventWhen('rival', 'FailedCreatePodSandBox', new RegExp(String(port)));
    await daemon.gantry('delete', 'pods', '--all');
    await leaks.assertNone({
      only: ['processes', 'mounts', 'network namespaces', 'CNI addresses', 'iptables rules', 'links', 'cgroups'],
    });
  });

  test('CNI: a plug-in that is missing, one that fails, and then a good configuration', async () => {
    const conf = join(daemon.root.cniConfDir, '10-broken.conflist');
    const bridge = `bx${daemon.root.instance}`;
    const list = (type: string): string =>
      JSON.stringify({ cniVersion: '1.0.0', name: `broken-${daemon.root.instance}`, plugins: [{ type, bridge }] });
    await writeFile(conf, list('no-such-plugin'));
    await daemon.apply(podOf('cni', [{}]));
    await daemon.eventWhen('cni', 'FailedCreatePodSandBox', /no-such-plugin/);
    await writeFile(`${conf}.new`, list('bridge').replace(/("bridge":"bx[^"]*")/, '$1,"ipam":{"type":"host-local"}'));
    await rename(`${conf}.new`, conf);
    await daemon.eventWhen('cni', 'FailedCreatePodSandBox', /bridge.*(failed|ipam|range)/i);
    const explained = await daemon.gantry('explain', 'pod', 'cni');
    assert.match(explained, /Failed to create pod sandbox/);
    await unlink(conf);
    await daemon.root.writeCniConfig('10.211.77.0/28');
    const pod = await daemon.ready('cni');
    assert.match(pod.status?.podIP ?? '', /^10\.211\.77\./);
    await daemon.gantry('delete', 'pod', 'cni');
    assert.equal(await daemon.pod('cni'), undefined);
    await unlink(join(daemon.root.cniConfDir, '10-test.conflist'));
    await eventually(
      () => daemon.api.kube.list(op, 'pods'),
      ({ items }) => items.length === 0,
      'no pods',
    );
    // The plug-in makes its bridge before it asks for an address, and never takes one away.
    for (const link of [bridge, `br${daemon.root.instance}`]) await execFile(op, 'ip', ['link', 'delete', link]);
    await leaks.assertNone({
      only: ['processes', 'mounts', 'network namespaces', 'CNI addresses', 'iptables rules', 'links', 'cgroups'],
    });
  });

  test('a ConfigMap and a Secret that are missing: said, and the pod comes up when they are there', async () => {
    const env = [{ name: 'A', valueFrom: { configMapKeyRef: { name: 'later', key: 'a' } } }];
    await daemon.apply(
      podOf('config', [{ env, script: 'echo $A; trap "exit 0" TERM; while :; do sleep 1 & wait $!; done' }]),
    );
    const pod = await daemon.podWhen('config', waitingWith('CreateContainerConfigError'), 'waiting');
    assert.match(first(pod)?.state?.waiting?.message ?? '', /configmap "later" not found/);
    await daemon.apply({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'later' }, data: { a: 'at last' } });
    await daemon.ready('config');
    assert.equal(await daemon.gantry('logs', 'config'), 'at last\n');
    await daemon.apply(podOf('secret', [{}], { volumes: [{ name: 's', secret: { secretName: 'missing' } }] }));
    await daemon.eventWhen('secret', 'FailedMount', /secret "default\/missing" not found/);
    await daemon.gantry('delete', 'pods', '--all');
    await daemon.gantry('delete', 'configmap', 'later');
  });
});
