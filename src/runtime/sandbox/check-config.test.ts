import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PodSandboxConfig } from '../../cri/gen/api.ts';
import { checkSandboxConfig } from './check-config.ts';

const check = (config: object): void => checkSandboxConfig(PodSandboxConfig.fromPartial(config));
const port = (mapping: object) => ({ portMappings: [{ containerPort: 80 }, { containerPort: 80, ...mapping }] });

test('what no host can give is refused by field and value', () => {
  check({});
  check({ logDirectory: '/var/log/pods/x' });
  check({ hostname: 'a.b-C', ...port({ hostPort: 65_535, hostIp: '::1', protocol: 2 }) });
  check(port({ hostIp: '10.0.0.1' }));
  const cases: [object, RegExp][] = [
    [{ logDirectory: 'rel/x' }, /log_directory: "rel\/x" is not an absolute path/],
    [{ hostname: 'a\nb' }, /hostname "a\\nb" is no host name/],
    [{ hostname: 'a\0' }, /config\.hostname: there is a NUL/],
    [{ hostname: 'a'.repeat(65) }, /hostname: 65 bytes/],
    [{ labels: { a: '\0' } }, /config\.labels\.a: there is a NUL/],
    [port({ hostPort: -5 }), /port_mappings\[1\]\.host_port: -5 is no port/],
    [port({ hostPort: 65_536 }), /host_port: 65536 is no port/],
    [port({ containerPort: 70_000 }), /container_port: 70000 is no port/],
    [port({ containerPort: 0, hostPort: 1 }), /host_port without a container_port/],
    [port({ hostIp: 'banana' }), /host_ip: "banana" is no IP address/],
    [port({ protocol: 3 }), /port_mappings\[1\]\.protocol: 3 is none of TCP, UDP, SCTP/],
    [{ linux: { securityContext: { seccomp: { profileType: 7 } } } }, /seccomp\.profile_type: 7 /],
    [{ linux: { securityContext: { supplementalGroupsPolicy: 9 } } }, /supplemental_groups_policy: 9 /],
  ];
  for (const [config, message] of cases) assert.throws(() => check(config), { kind: 'InvalidArgument', message });
});
