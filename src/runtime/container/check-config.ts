import {
  MountPropagation,
  NamespaceMode,
  SecurityProfile_ProfileType,
  SupplementalGroupsPolicy,
  type ContainerConfig,
} from '../../cri/gen/api.ts';
import { demandNoNul, demandValueOf } from '../../cri/field-checks.ts';

/** What a container's configuration cannot have in any sandbox and on any host. Pure. Throws InvalidArgument that names the field. */
export function checkContainerConfig(config: ContainerConfig): void {
  demandNoNul(config, 'config');
  for (const [i, { propagation }] of config.mounts.entries()) {
    demandValueOf(MountPropagation, propagation, `mounts[${String(i)}].propagation`);
  }
  const security = config.linux?.securityContext;
  const field = (name: string): string => `linux.security_context.${name}`;
  demandValueOf(SecurityProfile_ProfileType, security?.seccomp?.profileType, field('seccomp.profile_type'));
  demandValueOf(SecurityProfile_ProfileType, security?.apparmor?.profileType, field('apparmor.profile_type'));
  demandValueOf(SupplementalGroupsPolicy, security?.supplementalGroupsPolicy, field('supplemental_groups_policy'));
  const { network, pid, ipc, usernsOptions } = security?.namespaceOptions ?? {};
  for (const [name, mode] of Object.entries({ network, pid, ipc, 'userns_options.mode': usernsOptions?.mode })) {
    demandValueOf(NamespaceMode, mode, field(`namespace_options.${name}`));
  }
}
