import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ContainerConfig, MountPropagation } from './gen/api.ts';
import { demandCommand, demandNoNul, demandValueOf } from './field-checks.ts';

test('an enum has the values that it has', () => {
  for (const value of [undefined, 0, 1, 2]) demandValueOf(MountPropagation, value, 'propagation');
  for (const value of [-1, 3, 9]) {
    const message = `propagation: ${String(value)} is none of ${Object.keys(MountPropagation).join(', ')}`;
    assert.throws(() => demandValueOf(MountPropagation, value, 'propagation'), { kind: 'InvalidArgument', message });
  }
});

test('a NUL is found wherever it is, and its field named', () => {
  const clean = { metadata: { name: 'a' }, envs: [{ key: 'A', value: Buffer.from('b') }], labels: { a: 'b' } };
  demandNoNul(ContainerConfig.fromPartial({ ...clean, linux: { securityContext: { runAsUser: { value: 1n } } } }), 'c');
  const found = (more: object, field: string): void => {
    const config = ContainerConfig.fromPartial({ ...clean, ...more });
    const message = `config.${field}: there is a NUL in it`;
    assert.throws(() => demandNoNul(config, 'config'), { kind: 'InvalidArgument', message });
  };
  found({ workingDir: '/a\0b' }, 'working_dir');
  found({ envs: [clean.envs[0], { key: 'A', value: Buffer.from('\0') }] }, 'envs[1].value');
  found({ labels: { a: '\0' } }, 'labels.a');
  found({ annotations: { 'a\0': '' } }, 'annotations');
  found({ args: ['a', '\0'] }, 'args[1]');
  found({ linux: { securityContext: { maskedPaths: ['/\0'] } } }, 'linux.security_context.masked_paths[0]');
});

test('a command has words, and none has a NUL', () => {
  demandCommand(['sh', '-c', '']);
  const cases: [string[], string][] = [
    [[], 'cmd: there is no command'],
    [['ls\0'], 'cmd[0]: there is a NUL in it'],
    [['ls', '/a\0b'], 'cmd[1]: there is a NUL in it'],
  ];
  for (const [cmd, message] of cases) assert.throws(() => demandCommand(cmd), { kind: 'InvalidArgument', message });
});
