/* eslint-disable @typescript-eslint/no-deprecated -- the older field is read, too */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LinuxContainerSecurityContext, SecurityProfile_ProfileType } from '../../cri/gen/api.ts';
import { appArmorProfileOf, notGiven } from './confinement.ts';

type Partial = Parameters<typeof LinuxContainerSecurityContext.fromPartial>[0];
const security = (partial: Partial): LinuxContainerSecurityContext =>
  LinuxContainerSecurityContext.fromPartial(partial);
const { Localhost, RuntimeDefault, Unconfined } = SecurityProfile_ProfileType;

test('AppArmor: a profile of the host is passed on, in both ways to ask for it, and never left out', () => {
  const on = { appArmor: true };
  const localhost = { profileType: Localhost, localhostRef: 'strict' };
  assert.equal(appArmorProfileOf(security({ apparmor: localhost }), on), 'strict');
  assert.equal(appArmorProfileOf(security({ apparmorProfile: 'localhost/strict' }), on), 'strict');
  const both = { apparmor: localhost, apparmorProfile: 'unconfined' };
  assert.equal(appArmorProfileOf(security(both), on), 'strict', 'the newer field counts');
  assert.equal(appArmorProfileOf(security({ ...both, privileged: true }), on), undefined);
  for (const profileType of [RuntimeDefault, Unconfined]) {
    assert.equal(appArmorProfileOf(security({ apparmor: { profileType, localhostRef: '' } }), on), undefined);
  }
  for (const apparmorProfile of ['', 'unconfined', 'runtime/default']) {
    assert.equal(appArmorProfileOf(security({ apparmorProfile }), { appArmor: false }), undefined);
  }
  assert.equal(appArmorProfileOf(undefined, on), undefined);
  assert.throws(() => appArmorProfileOf(security({ apparmor: localhost }), { appArmor: false }), {
    kind: 'FailedPrecondition',
  });
  for (const asked of [{ apparmorProfile: 'strict' }, { apparmor: { profileType: Localhost, localhostRef: '' } }]) {
    assert.throws(() => appArmorProfileOf(security(asked), on), { kind: 'InvalidArgument' });
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
