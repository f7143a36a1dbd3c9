/* eslint-disable @typescript-eslint/no-deprecated -- the older field is read, too */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LinuxContainerSecurityContext, SecurityProfile_ProfileType } from '../../cri/gen/api.ts';
import { seccompChoiceOf, type SeccompChoice } from './seccomp-choice.ts';

type Partial = Parameters<typeof LinuxContainerSecurityContext.fromPartial>[0];
const choice = (partial: Partial): SeccompChoice => seccompChoiceOf(LinuxContainerSecurityContext.fromPartial(partial));
const { Localhost, RuntimeDefault, Unconfined } = SecurityProfile_ProfileType;
const unconfined = { kind: 'unconfined' };

test('what is said of seccomp, and what is not', () => {
  const file = { profileType: Localhost, localhostRef: '/etc/strict.json' };
  assert.deepEqual(seccompChoiceOf(undefined), unconfined);
  assert.deepEqual(choice({}), unconfined, 'nothing said');
  assert.deepEqual(choice({ seccomp: { profileType: RuntimeDefault } }), { kind: 'default' });
  assert.deepEqual(choice({ seccomp: { profileType: Unconfined } }), unconfined);
  assert.deepEqual(choice({ seccomp: file }), { kind: 'file', path: '/etc/strict.json' });
  assert.deepEqual(choice({ seccomp: file, privileged: true }), unconfined);
});

test('the older text counts where nothing else is said', () => {
  for (const text of ['runtime/default', 'docker/default']) {
    assert.deepEqual(choice({ seccompProfilePath: text }), { kind: 'default' });
  }
  assert.deepEqual(choice({ seccompProfilePath: 'unconfined' }), unconfined);
  assert.deepEqual(choice({ seccompProfilePath: 'localhost//a/b.json' }), { kind: 'file', path: '/a/b.json' });
  const both = { seccomp: { profileType: Unconfined }, seccompProfilePath: 'runtime/default' };
  assert.deepEqual(choice(both), unconfined, 'the newer field counts');
});

test('profiles that cannot be', () => {
  for (const asked of [
    { seccomp: { profileType: Localhost } },
    { seccomp: { profileType: Localhost, localhostRef: 'strict.json' } },
    { seccompProfilePath: 'strict' },
    { seccompProfilePath: 'localhost/' },
  ]) {
    assert.throws(() => choice(asked), { kind: 'InvalidArgument' }, JSON.stringify(asked));
  }
});
