/* eslint-disable @typescript-eslint/no-deprecated -- the older field is read, too */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LinuxContainerSecurityContext, SecurityProfile_ProfileType } from '../../cri/gen/api.ts';
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

test('what is not given is said: labels without SELinux, capabilities that the daemon itself has not', () => {
  const host = { seLinux: false, boundingCapabilities: ['CAP_CHOWN'] };
  assert.deepEqual(notGiven(undefined, host), []);
  const asked = security({
    selinuxOptions: { user: '', role: '', type: 'spc_t', level: 's0' },
    capabilities: { addCapabilities: ['SYS_ADMIN', 'CHOWN'] },
  });
  const words = notGiven(asked, host);
  assert.equal(words.length, 2);
  assert.match(words[0] ?? '', /spc_t/);
  assert.match(words[1] ?? '', /CAP_SYS_ADMIN/);
  assert.throws(() => notGiven(asked, { ...host, seLinux: true }), { kind: 'NotImplemented' });
  assert.deepEqual(notGiven(security({ selinuxOptions: {} }), { ...host, seLinux: true }), [], 'an empty label');
});
