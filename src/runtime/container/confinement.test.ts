/* eslint-disable @typescript-eslint/no-deprecated -- the older field is read, too */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ContainerConfig, LinuxContainerSecurityContext, SecurityProfile_ProfileType } from '../../cri/gen/api.ts';
import { appArmorChoiceOf, notGiven, type AppArmorChoice } from './confinement.ts';

type Partial = Parameters<typeof LinuxContainerSecurityContext.fromPartial>[0];
const security = (partial: Partial): LinuxContainerSecurityContext =>
  LinuxContainerSecurityContext.fromPartial(partial);
const { Localhost, RuntimeDefault, Unconfined } = SecurityProfile_ProfileType;

test('which AppArmor profile is asked for, in both ways to ask', () => {
  const localhost = { profileType: Localhost, localhostRef: 'strict' };
  const choice = (partial: Partial): AppArmorChoice => appArmorChoiceOf(security(partial));
  const strict = { kind: 'named', name: 'strict' };
  assert.deepEqual(choice({ apparmor: localhost }), strict);
  assert.deepEqual(choice({ apparmor: { ...localhost, localhostRef: 'localhost/strict' } }), strict);
  assert.deepEqual(choice({ apparmorProfile: 'localhost/strict' }), strict);
  const both = { apparmor: localhost, apparmorProfile: 'unconfined' };
  assert.deepEqual(choice(both), strict, 'the newer field counts');
  assert.deepEqual(choice({ ...both, privileged: true }), { kind: 'unconfined' });
  assert.deepEqual(choice({ apparmor: { profileType: Unconfined } }), { kind: 'unconfined' });
  assert.deepEqual(choice({ apparmorProfile: 'unconfined' }), { kind: 'unconfined' });
  for (const asked of [{}, { apparmor: { profileType: RuntimeDefault } }, { apparmorProfile: 'runtime/default' }]) {
    assert.deepEqual(choice(asked), { kind: 'default' }, JSON.stringify(asked));
  }
  assert.deepEqual(appArmorChoiceOf(undefined), { kind: 'default' });
  for (const asked of [{ apparmorProfile: 'strict' }, { apparmor: { profileType: Localhost, localhostRef: '' } }]) {
    assert.throws(() => choice(asked), { kind: 'InvalidArgument' }, JSON.stringify(asked));
  }
});

test('labels are refused, and what is left out is said: new labels of files, capabilities that the daemon itself has not', () => {
  const host = { seLinux: false, boundingCapabilities: ['CAP_CHOWN'] };
  const given = (securityContext: Partial, seLinux = false, mounts: object[] = []): string[] =>
    notGiven(ContainerConfig.fromPartial({ linux: { securityContext }, mounts }), { ...host, seLinux });
  assert.deepEqual(given({}), []);
  for (const seLinux of [true, false]) {
    assert.deepEqual(given({ selinuxOptions: {} }, seLinux), [], 'an empty label');
    const [kind, why] = seLinux ? ['NotImplemented', 'supported yet; .*'] : ['FailedPrecondition', 'has no SELinux.*'];
    for (const [selinuxOptions, said] of [
      [{ type: 'spc_t', level: 's0' }, 'type spc_t, level s0'],
      [{ level: 's0:c1,c2' }, 'level s0:c1,c2'],
    ] as const) {
      const message = new RegExp(`^linux\\.security_context\\.selinux_options \\(${said}\\): .*${why} seLinuxOptions$`);
      for (const privileged of [false, true])
        assert.throws(() => given({ selinuxOptions, privileged }, seLinux), { kind, message });
    }
    const relabelled = given({}, seLinux, [{ containerPath: '/a' }, { containerPath: '/b', selinuxRelabel: true }]);
    assert.match(relabelled.join(), /^mount \/b: selinux_relabel: [^,]*$/);
  }
  const words = given({ capabilities: { addCapabilities: ['SYS_ADMIN', 'CHOWN'] } });
  assert.match(words.join(), /^CAP_SYS_ADMIN[^,]*$/);
});
