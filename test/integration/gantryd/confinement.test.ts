import assert from 'node:assert/strict';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import type { RuntimeHandlerFeatures } from '../../../src/cri/gen/api.ts';
import { execFile } from '../../../src/linux/exec.ts';
import { busyboxRootfs } from '../../support/busybox.ts';
import { Gantryd, op, podOf } from '../../support/gantryd.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { tarOf } from '../../support/tar.ts';

const skip = process.getuid?.() !== 0 && 'needs root';

describe('what pods may and see, as they ask for it', { skip }, () => {
  let daemon: Gantryd;
  let leaks: LeakCheck;

  before(async () => {
    daemon = await Gantryd.withImage();
    const folder = join(daemon.root.data, 'seccomp/team');
    await mkdir(folder, { recursive: true });
    const denied = [{ names: ['mkdir', 'mkdirat'], action: 'SCMP_ACT_ERRNO', errnoRet: 38 }];
    const profile = { defaultAction: 'SCMP_ACT_ALLOW', syscalls: denied };
    await writeFile(join(folder, 'no-folders.json'), JSON.stringify(profile));
    leaks = await LeakCheck.begin(daemon.root.leakRoots([{ path: daemon.root.logRoot }]));
  });
  after(async () => {
    await daemon[Symbol.asyncDispose]();
  });
  afterEach(async () => {
    await daemon.endPods();
  });

  const features = async (): Promise<RuntimeHandlerFeatures | undefined> =>
    (await daemon.cri.runtime.status(op, { verbose: false })).runtimeHandlers.find(({ name }) => name === '')?.features;

  const seccomp = (localhostProfile: string): object => ({
    seccompProfile: { type: 'Localhost', localhostProfile },
  });

  test('a seccomp profile from the folder of profiles holds; one that is not there is told of', async () => {
    const file = 'team/no-folders.json';
    await daemon.create(podOf('confined', [{}], { securityContext: seccomp(file) }));
    await daemon.create(
      podOf('free', [{ securityContext: { seccompProfile: { type: 'Unconfined' } } }], {
        securityContext: seccomp(file),
      }),
    );
    await daemon.create(podOf('lacking', [{ securityContext: seccomp('team/none.json') }]));
    await daemon.ready('confined');
    await daemon.ready('free');
    await assert.rejects(daemon.shell('confined', 'mkdir /tmp-of-mine'), /Function not implemented/);
    await daemon.shell('free', 'mkdir /tmp-of-mine');
    await daemon.podWhen(
      'lacking',
      ({ status }) => {
        const { reason, message = '' } = status?.containerStatuses?.[0]?.state?.waiting ?? {};
        return reason === 'CreateContainerError' && message.includes('team/none.json');
      },
      'told which file is not there',
    );
    for (const name of ['confined', 'free', 'lacking']) await daemon.delete(name);
    for (const name of ['confined', 'free', 'lacking']) await daemon.gone(name);
    await leaks.assertNone();
  });

  test('on a host without AppArmor a pod that asks for it is over before it begins', async (t) => {
    const enabled = await readFile('/sys/module/apparmor/parameters/enabled', 'utf8').catch(() => 'N');
    if (enabled.trim() === 'Y') {
      t.skip('this host has AppArmor');
      return;
    }
    const securityContext = { appArmorProfile: { type: 'Localhost', localhostProfile: 'any' } };
    await daemon.create(podOf('armoured', [{ securityContext }]));
    const { status } = await daemon.podWhen('armoured', (pod) => pod.status?.phase === 'Failed', 'rejected');
    assert.equal(status?.reason, 'AppArmor');
    assert.equal(status.message, 'Cannot enforce AppArmor: AppArmor is not enabled on the host');
    await daemon.create(podOf('plain', [{ securityContext: { appArmorProfile: { type: 'Unconfined' } } }]));
    await daemon.ready('plain');
    for (const name of ['armoured', 'plain']) await daemon.delete(name);
    for (const name of ['armoured', 'plain']) await daemon.gone(name);
    await leaks.assertNone();
  });

  test('a read-only mount is so all the way down where that is asked for, and the status says it', async (t) => {
    if (!(await features())?.recursiveReadOnlyMounts) {
      t.skip('the OCI runtime or the kernel has no recursive read-only mounts');
      return;
    }
    const path = join(daemon.root.dir, 'shared');
    const inner = join(path, 'inner');
    await mkdir(inner, { recursive: true });
    await execFile(op, 'mount', ['-t', 'tmpfs', 'inner', inner]);
    try {
      const mounts = ['Disabled', 'IfPossible', 'Enabled'].map((recursiveReadOnly) => {
        return { name: 'shared', mountPath: `/${recursiveReadOnly}`, readOnly: true, recursiveReadOnly };
      });
      const volumes = [{ name: 'shared', hostPath: { path } }];
      await daemon.create(podOf('deep', [{ volumeMounts: mounts }], { volumes }));
      const { status } = await daemon.ready('deep');
      assert.deepEqual(
        status?.containerStatuses?.[0]?.volumeMounts?.map((mount) => [mount.mountPath, mount.recursiveReadOnly]),
        [
          ['/Disabled', 'Disabled'],
          ['/IfPossible', 'Enabled'],
          ['/Enabled', 'Enabled'],
        ],
      );
      await daemon.shell('deep', 'touch /Disabled/inner/x');
      for (const where of ['/Disabled', '/IfPossible/inner', '/Enabled/inner'])
        await assert.rejects(daemon.shell('deep', `touch ${where}/y`), /Read-only file system/);
      await daemon.delete('deep');
      await daemon.gone('deep');
    } finally {
      await execFile(op, 'umount', [inner]);
    }
    await leaks.assertNone();
  });

  test('groups of the image are left out where that is asked for; the status says who it is', async () => {
    const group = `${(await busyboxRootfs()).find(({ name }) => name === 'etc/group')?.content?.toString() ?? ''}team:x:4242:user\n`;
    const members = (await busyboxRootfs()).map((one) => (one.name === 'etc/group' ? { ...one, content: group } : one));
    const tar = join(daemon.root.dir, 'team.tar');
    await writeFile(tar, await tarOf(members));
    const image = 'localhost/gantry/team:1';
    await daemon.gantry('image', 'import', '--rootfs', tar, image);
    const pod = (name: string, more: object) =>
      podOf(name, [{ image }], { securityContext: { runAsUser: 1000, supplementalGroups: [7], ...more } });
    await daemon.create(pod('merged', {}));
    await daemon.create(pod('strict', { supplementalGroupsPolicy: 'Strict' }));
    for (const [name, groups] of [
      ['merged', [7, 1000, 4242]],
      ['strict', [7, 1000]],
    ] as const) {
      const { status } = await daemon.ready(name);
      const { uid, gid, supplementalGroups = [] } = status?.containerStatuses?.[0]?.user?.linux ?? {};
      assert.deepEqual([uid, gid, supplementalGroups.toSorted((a, b) => a - b)], [1000, 1000, groups]);
      const inside = (await daemon.shell(name, 'id -G')).split(' ').map(Number);
      assert.deepEqual(
        inside.toSorted((a, b) => a - b),
        groups,
      );
    }
    for (const name of ['merged', 'strict']) await daemon.delete(name);
    for (const name of ['merged', 'strict']) await daemon.gone(name);
    // All but the files: there is another image.
    await leaks.assertNone({ only: ['processes', 'mounts', 'network namespaces', 'cgroups'] });
  });

  test('a /proc without masks, for a pod with users of its own', async (t) => {
    if (!(await features())?.userNamespaces) {
      t.skip('needs user namespaces: runc 1.2 or crun 1.9, named by GANTRY_TEST_OCI_RUNTIME');
      return;
    }
    // Passed through by those whom root inside is, as the folders above /run/gantry can be.
    await chmod(dirname(daemon.root.dir), 0o711);
    const containers = [{}, { name: 'bare', securityContext: { procMount: 'Unmasked' } }];
    await daemon.create(podOf('proc', containers, { hostUsers: false }));
    await daemon.ready('proc');
    const mountsBelowProc = (container: string): Promise<string> =>
      daemon.gantry(
        'exec',
        'proc',
        '-c',
        container,
        '--',
        'sh',
        '-c',
        'grep -c " /proc/" /proc/self/mountinfo || true',
      );
    assert.notEqual((await mountsBelowProc('main')).trim(), '0');
    assert.equal((await mountsBelowProc('bare')).trim(), '0');
    await daemon.delete('proc');
    await daemon.gone('proc');
    await leaks.assertNone({ only: ['processes', 'mounts', 'network namespaces', 'cgroups'] });
  });
});
