import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Op } from '../../lib/abort.ts';
import { silentLog } from '../../lib/log.ts';
import { readNamedFile } from '../../linux/read-named-file.ts';
import { FALLBACK_SECCOMP_PROFILE } from './seccomp-fallback.ts';
import { parseSeccompProfile, resolveSeccomp, SeccompProfiles } from './seccomp.ts';
import type { SeccompProfile } from './seccomp-profile.ts';

const profile: SeccompProfile = {
  defaultAction: 'SCMP_ACT_ERRNO',
  defaultErrnoRet: 38,
  archMap: [{ architecture: 'SCMP_ARCH_X86_64', subArchitectures: ['SCMP_ARCH_X86'] }],
  syscalls: [
    { names: ['read'], action: 'SCMP_ACT_ALLOW', args: [], includes: {}, excludes: {} },
    { names: ['arm'], action: 'SCMP_ACT_ALLOW', includes: { arches: ['arm64'] } },
    { names: ['x86'], action: 'SCMP_ACT_ALLOW', includes: { arches: ['amd64', 'x32'] } },
    { names: ['admin'], action: 'SCMP_ACT_ALLOW', includes: { caps: ['CAP_SYS_ADMIN'] } },
    { names: ['admin'], action: 'SCMP_ACT_ERRNO', errnoRet: 1, excludes: { caps: ['CAP_SYS_ADMIN'] } },
    { names: ['new'], action: 'SCMP_ACT_ALLOW', includes: { minKernel: '6.10' } },
    { name: 'old', action: 'SCMP_ACT_ALLOW' },
  ],
};
const names = (arch: string, kernel: string, capabilities: string[]) =>
  resolveSeccomp(profile, { arch, kernel, capabilities }).syscalls?.map((rule) =>
    [...rule.names, rule.action.slice(9)].join(),
  );

test('rules for other machines, kernels and capabilities are left out', () => {
  assert.deepEqual(names('x64', '6.9.1-x', []), ['read,ALLOW', 'x86,ALLOW', 'admin,ERRNO', 'old,ALLOW']);
  assert.deepEqual(names('arm64', '6.12', ['CAP_SYS_ADMIN']), [
    'read,ALLOW',
    'arm,ALLOW',
    'admin,ALLOW',
    'new,ALLOW',
    'old,ALLOW',
  ]);
  const resolved = resolveSeccomp(profile, { arch: 'x64', kernel: '6.1', capabilities: [] });
  assert.deepEqual(resolved.architectures, ['SCMP_ARCH_X86_64', 'SCMP_ARCH_X86']);
  assert.equal(resolved.defaultErrnoRet, 38);
  assert.deepEqual(resolved.syscalls?.[0], { names: ['read'], action: 'SCMP_ACT_ALLOW' });
});

test('a profile in the OCI’s own form goes through as it is', () => {
  const own = { defaultAction: 'SCMP_ACT_ALLOW', architectures: ['SCMP_ARCH_X86_64'], syscalls: [] };
  assert.deepEqual(resolveSeccomp(own, { arch: 'x64', kernel: '6.1', capabilities: [] }), own);
});

test('what is no profile is refused with its path', () => {
  for (const text of ['', '{', '[]', 'null', '{}', '{"defaultAction":1}', '{"defaultAction":"x","syscalls":3}']) {
    assert.throws(() => parseSeccompProfile(text, '/p/x.json'), /\/p\/x\.json/);
  }
});

test('without a file there is a profile all the same', async () => {
  const profiles = await SeccompProfiles.load(['/no/such/file']);
  assert.equal(profiles.defaultSource, undefined);
  const denied = (capabilities: string[]) =>
    profiles.forCapabilities(capabilities).syscalls?.flatMap((rule) => rule.names);
  assert.ok(denied([])?.includes('mount'));
  assert.equal(denied(['CAP_SYS_ADMIN'])?.includes('mount'), false);
  assert.equal(FALLBACK_SECCOMP_PROFILE.defaultAction, 'SCMP_ACT_ALLOW');
});

test('a profile that a container names is a regular file of a bearable size', async () => {
  const profiles = await SeccompProfiles.load(['/no/such/file']);
  const op = { signal: new AbortController().signal, log: silentLog };
  const files = { readFile: (_: Op, path: string, maxBytes: number) => readNamedFile(path, maxBytes) };
  const refused = (path: string, words: RegExp) => assert.rejects(profiles.fromFile(op, files, path, []), words);
  await refused('/no/such/profile', /seccomp profile \/no\/such\/profile: no such file/);
  await refused('/dev/null', /seccomp profile \/dev\/null: is no regular file/);
  await refused('/', /seccomp profile \/: is no regular file/);
});
