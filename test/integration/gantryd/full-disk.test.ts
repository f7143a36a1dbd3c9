import assert from 'node:assert/strict';
import { access, mkdir, statfs, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { ImageSpec, type RunPodSandboxRequest, type RuntimeCondition } from '../../../src/cri/gen/api.ts';
import { execFile } from '../../../src/linux/exec.ts';
import { isKind } from '../../../src/lib/errors.ts';
import { eventually, Gantryd, isReady, op, podOf, SLEEP } from '../../support/gantryd.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { TempRoot } from '../../support/temp-root.ts';

const skip = process.getuid?.() !== 0 && 'needs root';

/** Data, pods' logs and the daemon's own log on one small disk; the rest is elsewhere, as /run is. */
async function daemonOnSmallDisk(root: TempRoot): Promise<Gantryd> {
  const mount = ['-t', 'tmpfs', '-o', 'size=64m', 'test-disk', root.data];
  const { code, stderr } = await execFile(op, 'mount', mount);
  assert.equal(code, 0, stderr);
  const logs = join(root.data, 'logs');
  await mkdir(logs);
  await mkdir(root.podsDir);
  await writeFile(join(root.data, 'gantryd.log'), '');
  await symlink(join(root.data, 'gantryd.log'), join(root.dir, 'gantryd.log'));
  return await Gantryd.make({ root, flags: [`--log-root=${logs}`] });
}

/** Writes to its volume until nothing fits, and takes at once whatever becomes free. */
const HUNGRY = `trap "exit 3" TERM; n=0; while :; do n=$((n+1)); dd if=/dev/zero of=/data/$n bs=64k count=512 2>/dev/null; sleep 0.2; done`;
const hungryPod = podOf('hungry', [{ script: HUNGRY, volumeMounts: [{ name: 'data', mountPath: '/data' }] }], {
  volumes: [{ name: 'data', emptyDir: {} }],
});

describe('a disk that a pod has filled', { skip }, () => {
  let root: TempRoot;
  let daemon: Gantryd;
  let leaks: LeakCheck;

  before(async () => {
    root = await TempRoot.make();
    daemon = await daemonOnSmallDisk(root);
    await daemon.start();
    await daemon.importImage();
    leaks = await LeakCheck.begin(root.leakRoots());
    await daemon.apply(podOf('other', [{ script: SLEEP }]), '--wait');
    await daemon.apply(
      podOf('short', [{ script: 'trap "exit 7" USR1; while :; do sleep 0.2; done' }], { restartPolicy: 'Never' }),
      '--wait',
    );
    await daemon.apply(hungryPod, '--wait');
    await eventually(
      () => statfs(root.data),
      ({ bfree }) => bfree === 0,
      'a full disk',
    );
  });
  after(async () => {
    await daemon[Symbol.asyncDispose]();
    await root[Symbol.asyncDispose]();
  });

  const diskCondition = async (): Promise<RuntimeCondition | undefined> => {
    const { status } = await daemon.cri.runtime.status(op, { verbose: false });
    return status?.conditions.find(({ type }) => type === 'DiskHasRoom');
  };

  test('takes no new pod, sandbox or image, and says why', async () => {
    const { pid } = daemon;
    const condition = await eventually(
      diskCondition,
      (found) => found?.status === false,
      'a full disk that is noticed',
    );
    assert.match(condition?.message ?? '', /full/);
    const refused = await daemon.cli(['apply', '-f', '-'], JSON.stringify(podOf('more', [{}])));
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /InsufficientStorage|disk.* full/i);
    assert.doesNotMatch(refused.stderr, /TooManyRequests|too many requests/i);

    const sandbox: RunPodSandboxRequest = {
      config: {
        metadata: { name: 'direct', uid: 'u', namespace: 'default', attempt: 0 },
        hostname: 'direct',
        logDirectory: '',
        dnsConfig: undefined,
        portMappings: [],
        labels: {},
        annotations: {},
        linux: undefined,
        windows: undefined,
      },
      runtimeHandler: '',
    };
    const isFull = (error: unknown): boolean =>
      isKind(error, 'ResourceExhausted') && /disk.* full/i.test((error as Error).message);
    await assert.rejects(daemon.cri.runtime.runPodSandbox(op, sandbox), isFull);
    const image = ImageSpec.fromPartial({ image: 'localhost:1/never/asked:1' });
    await assert.rejects(daemon.cri.image.pullImage(op, { image, auth: undefined, sandboxConfig: undefined }), isFull);

    const doctor = await daemon.cli(['doctor']);
    assert.match(doctor.stdout + doctor.stderr, /reserve.*full|full.*reserve/is);
    assert.match(await daemon.log(), /nothing new is made/);
    assert.equal(daemon.pid, pid);
  });

  test('a start on it finds the containers, whose ends are known', async () => {
    const pids = await daemon.pids('hungry');
    assert.equal(pids.size, 1);
    const [ending] = (await daemon.pids('short')).values();
    assert.ok(ending !== undefined);
    await daemon.restart('SIGKILL', async () => {
      process.kill(ending, 'SIGUSR1');
      const gone = (): Promise<boolean> =>
        access(`/proc/${String(ending)}`).then(
          () => false,
          () => true,
        );
      await eventually(gone, (is) => is, 'an end while no daemon runs');
    });
    assert.deepEqual(await daemon.pids('hungry'), pids);
    assert.ok(isReady(await daemon.ready('other')));
    await daemon.podWhen('short', (pod) => pod.status?.phase === 'Failed', 'ended');
    const ended = (await daemon.pod('short'))?.status?.containerStatuses?.[0]?.state?.terminated;
    assert.equal(ended?.exitCode, 7);
    // Not after a kill only: what a clean end takes away has to be made anew.
    await daemon.restart('SIGTERM');
    assert.deepEqual(await daemon.pids('hungry'), pids);
  });

  test('deletes other pods and the one that filled it, and goes on by itself when there is room', async () => {
    await daemon.gantry('delete', 'pod', 'short', 'other');
    await daemon.gantry('delete', 'pod', 'hungry');
    assert.match(await daemon.gantry('explain', 'pod', 'hungry'), /ended with code 3/);
    await eventually(
      () => daemon.cli(['apply', '-f', '-'], JSON.stringify(podOf('later', [{}]))),
      ({ code }) => code === 0,
      'room again',
    );
    await daemon.ready('later');
    assert.equal((await diskCondition())?.status, true);
    await daemon.gantry('delete', 'pods', '--all');
    await leaks.assertNone({
      only: ['processes', 'mounts', 'network namespaces', 'CNI addresses', 'links', 'cgroups'],
    });
    await daemon.end('SIGTERM');
  });
});
