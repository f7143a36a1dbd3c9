import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ContainerConfig, NamespaceMode, PodSandboxConfig } from '../../cri/gen/api.ts';
import { checkAgainstSandbox, checkContainerConfig } from './check-config.ts';

const check = (config: object): void => checkContainerConfig(ContainerConfig.fromPartial(config));
const withSecurity = (securityContext: object) => ({ linux: { securityContext } });

test('values that an enum does not have are refused by field and value', () => {
  check({ devices: [{ hostPath: '/dev/null' }] });
  check({ logPath: 'a/..b.log', envs: [{ key: 'A', value: Buffer.from('ä') }] });
  check(withSecurity({ namespaceOptions: { pid: NamespaceMode.TARGET, network: NamespaceMode.NODE } }));
  const cases: [object, RegExp][] = [
    [{ mounts: [{}, { propagation: 9 }] }, /mounts\[1\]\.propagation: 9 /],
    [withSecurity({ seccomp: { profileType: 7 } }), /security_context\.seccomp\.profile_type: 7 /],
    [withSecurity({ apparmor: { profileType: -1 } }), /apparmor\.profile_type: -1 /],
    [withSecurity({ supplementalGroupsPolicy: 9 }), /supplemental_groups_policy: 9 /],
    [withSecurity({ namespaceOptions: { network: 99, pid: 88 } }), /namespace_options\.network: 99 /],
    [withSecurity({ namespaceOptions: { pid: 88 } }), /namespace_options\.pid: 88 /],
    [withSecurity({ namespaceOptions: { usernsOptions: { mode: 5 } } }), /userns_options\.mode: 5 /],
    [{ envs: [{ key: 'A', value: Buffer.from('a\0') }] }, /config\.envs\[0\]\.value: there is a NUL/],
    [{ envs: [{ key: 'A', value: Buffer.of(0x61, 0xff) }] }, /envs\[0\]\.value: it is not UTF-8/],
    [{ devices: [{ permissions: 'rwm' }, { permissions: 'rwx' }] }, /devices\[1\]\.permissions: "rwx": only/],
    [{ logPath: 'a/../../b.log' }, /log_path: "a\/\.\.\/\.\.\/b\.log" leads out/],
  ];
  for (const [config, message] of cases) assert.throws(() => check(config), { kind: 'InvalidArgument', message });
});

const against = (securityContext: object, sandbox: object): void =>
  checkAgainstSandbox(
    ContainerConfig.fromPartial(withSecurity(securityContext)),
    PodSandboxConfig.fromPartial(withSecurity(sandbox)),
  );

test('a privileged container needs a privileged sandbox', () => {
  against({ privileged: true }, { privileged: true });
  against({ privileged: false }, { privileged: true });
  against({}, {});
  assert.throws(() => against({ privileged: true }, {}), { kind: 'InvalidArgument', message: /privileged/ });
});

test("a container has its sandbox's users and no others", () => {
  const users = (mode: NamespaceMode, hostId?: number) => {
    const mappings = hostId === undefined ? [] : [{ hostId, containerId: 0, length: 65_536 }];
    return { namespaceOptions: { usernsOptions: { mode, uids: mappings, gids: mappings } } };
  };
  const [none, own, other] = [users(NamespaceMode.NODE), users(NamespaceMode.POD, 1), users(NamespaceMode.POD, 9)];
  for (const [asked, sandbox] of [
    [none, none],
    [none, {}],
    [{}, own],
    [own, own],
  ] as const) {
    against(asked, sandbox);
  }
  for (const [asked, sandbox] of [
    [own, {}],
    [own, none],
    [own, other],
    [none, own],
    [users(NamespaceMode.NODE, 1), none],
    [users(NamespaceMode.POD), {}],
  ] as const) {
    assert.throws(() => against(asked, sandbox), { kind: 'InvalidArgument', message: /userns_options/ });
  }
});
