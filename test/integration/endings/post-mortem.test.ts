import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { ContainerState, type ContainerStatus } from '../../../src/cri/gen/api.ts';
import { execFile } from '../../../src/linux/exec.ts';
import { isAlive } from '../../../src/linux/procfs.ts';
import { eventually, Gantryd, op, podOf } from '../../support/gantryd.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { scaled } from '../../support/scale.ts';
import { TempRoot } from '../../support/temp-root.ts';
import { WrappedOciRuntime } from '../../support/wrapped-oci-runtime.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
/** How long the hang is looked at; the whole outlives the budget of a task's deletion (60 s), and the pod's end goes on without. */
const HANG_S = scaled({ small: 4, whole: 90 });
const UNKNOWN_CODE = 255;

async function run(program: string, ...args: readonly string[]): Promise<void> {
  const { code, stderr } = await execFile(op, program, args);
  assert.equal(code, 0, `${program} ${args.join(' ')}: ${stderr}`);
}

const isThere = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );

/** Each is found after the one before it. */
function assertInOrder(story: string, steps: readonly RegExp[]): void {
  let from = 0;
  for (const step of steps) {
    const found = step.exec(story.slice(from));
    assert.ok(found, `${String(step)} after ${String(from)} characters of\n${story}`);
    from += found.index + found[0].length;
  }
}

/** BEHAVIOUR.md O: a task's delete hangs, its exit is not known, its pod is deleted, and a share is mounted in its emptyDir. */
describe('the post-mortem, replayed', { skip }, () => {
  let daemon: Gantryd;
  let root: TempRoot;
  let oci: WrappedOciRuntime;
  let leaks: LeakCheck;

  before(async () => {
    root = await TempRoot.make();
    oci = await WrappedOciRuntime.make(join(root.dir, 'oci'));
    daemon = await Gantryd.make({ root, flags: [`--oci-runtime=${oci.path}`] });
    await daemon.start();
    await daemon.importImage();
  });
  after(async () => {
    await daemon[Symbol.asyncDispose]();
    await root[Symbol.asyncDispose]();
  });

  const explain = (): Promise<string> => daemon.gantry('explain', 'pod', 'mortem');

  async function look(containerId: string): Promise<{ status: ContainerStatus; info: string }> {
    const { status, info } = await daemon.cri.runtime.containerStatus(op, { containerId, verbose: true });
    assert.ok(status);
    return { status, info: info['info'] ?? '{}' };
  }

  test('the share is untouched, all is visible meanwhile, and it ends by itself', async () => {
    // Two shares: one in memory, one on the volumes' own file system, whose device number tells nothing.
    const memory = join(root.dir, 'memory');
    const nas = join(root.data, 'nas');
    for (const folder of [memory, nas]) await mkdir(folder);
    await run('mount', '-t', 'tmpfs', 'test-share', memory);
    for (const folder of [memory, nas]) {
      await mkdir(join(folder, 'deep'));
      await writeFile(join(folder, 'deep/file'), `precious in ${folder}`);
    }
    const assertUntouched = async (): Promise<void> => {
      for (const folder of [memory, nas]) {
        assert.deepEqual(await readdir(folder), ['deep']);
        assert.equal(await readFile(join(folder, 'deep/file'), 'utf8'), `precious in ${folder}`);
      }
    };
    leaks = await LeakCheck.begin(root.leakRoots([{ path: root.logRoot }]));

    const volumeMounts = [{ name: 'data', mountPath: '/data' }];
    const volumes = [{ name: 'data', emptyDir: {} }];
    const script = 'echo own > /data/own; trap "exit 0" TERM; while :; do sleep 1 & wait $!; done';
    const spec = { volumes, restartPolicy: 'Never' };
    await daemon.apply(podOf('mortem', [{ volumeMounts, script }, { volumeMounts }], spec), '--wait');
    const uid = (await daemon.pod('mortem'))?.metadata.uid ?? '';
    const data = join(root.podsDir, uid, 'volumes/kubernetes.io~empty-dir/data');
    const mounted = [join(data, 'memory'), join(data, 'nas')];
    for (const path of mounted) await mkdir(path);
    await run('mount', '--bind', memory, mounted[0] ?? '');
    await run('mount', '--bind', nas, mounted[1] ?? '');

    // While no daemon looks, the monitor and then the container's process are killed: nobody can know its exit any more.
    const { containers } = await daemon.cri.runtime.listContainers(op, { filter: undefined });
    const id = containers.find(({ metadata }) => metadata?.name === 'main')?.id ?? '';
    const { task } = (JSON.parse((await look(id)).info) as { state: { task: Record<string, number> } }).state;
    const init = { pid: task['pid'] ?? 0, startTimeTicks: task['startTimeTicks'] ?? 0 };
    const monitor = { pid: task['conmonPid'] ?? 0, startTimeTicks: task['conmonStartTimeTicks'] ?? 0 };
    await oci.hang('delete', id);
    await daemon.restart('SIGKILL', async () => {
      for (const one of [monitor, init]) {
        assert.ok(await isAlive(one));
        process.kill(one.pid, 'SIGKILL');
        await eventually(
          () => isThere(`/proc/${String(one.pid)}`),
          (there) => !there,
          'a process reaped',
        );
      }
    });

    const isUnknown = ({ state, exitCode, reason }: ContainerStatus): boolean =>
      state === ContainerState.CONTAINER_EXITED && exitCode === UNKNOWN_CODE && reason === 'Unknown';
    await eventually(
      async () => (await look(id)).status.reason,
      (reason) => reason === 'Unknown',
      'an exit that is unknown',
    );
    const waits = /Still pending:[^]*container main: .*waiting for wrapped-runtime delete/;
    await eventually(explain, (story) => waits.test(story), 'what the cleanup waits for');

    await using deleting = daemon.background(['delete', 'pod', 'mortem']);
    await eventually(explain, (story) => /the pod was deleted/.test(story), 'the deletion in the story');
    assert.match(await daemon.gantry('get', 'pods'), /mortem .* Terminating/);
    const described = await daemon.gantry('describe', 'pod', 'mortem');
    assert.match(described, /Status: +Terminating/);
    assert.match(described, /main:[^]*State: +Terminated\n +Reason: +Unknown[^]*Exit Code: +255/);
    // The other container is not held up.
    await eventually(explain, (story) => /c1 +ended with code 0/.test(story), 'the end of the other container');

    const endMs = performance.now() + HANG_S * 1000;
    while (performance.now() < endMs) {
      const { status, info } = await look(id);
      assert.ok(isUnknown(status), 'what has been told stays told');
      assert.match(info, /"waits":\[\{"what":"wrapped-runtime delete"|"cleanupPending":\{/);
      assert.match(await explain(), /Still pending:[^]*container main: /);
      await assertUntouched();
      await new Promise((next) => setTimeout(next, 500));
    }
    await oci.work('delete', id);

    const deleted = await deleting.ended;
    assert.equal(deleted.code, 0, deleted.stderr);
    for (const path of mounted) assert.ok(deleted.stderr.includes(path), deleted.stderr);
    await eventually(
      async () => (await daemon.cri.runtime.listContainers(op, { filter: undefined })).containers,
      (left) => left.length === 0,
      'the removal of the containers',
    );
    await assertUntouched();
    const blocked = await explain();
    for (const path of mounted) assert.ok(blocked.slice(blocked.indexOf('Still pending')).includes(path), blocked);
    assert.ok(!waits.test(blocked), 'the cleanup is over');

    await run('umount', mounted[0] ?? '');
    await assertUntouched();
    await run('umount', mounted[1] ?? '');
    const whole = (): Promise<string> => daemon.gantry('explain', 'pod', 'mortem', '--uid', uid);
    await eventually(
      async () => ((await isThere(join(root.podsDir, uid))) ? await whole() : 'gone'),
      (story) => story === 'gone',
      'the end of the volume',
    );
    await assertUntouched();
    const story = await whole();
    assertInOrder(story, [
      /main +container started/,
      /main +ended with an unknown code \(Unknown\): .*its monitor is gone/,
      /the pod is being ended +\(the pod was deleted\)/,
      /c1 +ended with code 0/,
      /main +task deleted, mounts and bundle released/,
      /sandbox stopped/,
      /Teardown of volume "data" is blocked: .*data\/memory: tmpfs of test-share is mounted there/,
      /volume data .*is torn down +\(what blocked it is gone/,
      /Nothing is pending\./,
    ]);
    assertInOrder(story, [/main +task deleted, mounts and bundle released\n/, /sandbox removed/]);
    await leaks.assertNone();
  });
});
