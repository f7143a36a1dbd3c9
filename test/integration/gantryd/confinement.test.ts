import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { Gantryd, podOf } from '../../support/gantryd.ts';
import { LeakCheck } from '../../support/leak-check.ts';

const skip = process.getuid?.() !== 0 && 'needs root';

describe('profiles of seccomp and AppArmor that pods ask for', { skip }, () => {
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
});
