import { isUtf8 } from 'node:buffer';
import {
  MountPropagation,
  NamespaceMode,
  type ContainerConfig,
  type IDMapping,
  type PodSandboxConfig,
} from '../../cri/gen/api.ts';
import { checkSecurityValues, demandNoNul, demandValueOf } from '../../cri/field-checks.ts';
import { invalidArgument } from '../../lib/errors.ts';

/** What a container's configuration cannot have in any sandbox and on any host. Pure. Throws InvalidArgument that names the field. */
export function checkContainerConfig(config: ContainerConfig): void {
  demandNoNul(config, 'config');
  checkLogPath(config.logPath);
  for (const [i, { value }] of config.envs.entries()) {
    // CRI carries any bytes, an OCI configuration only text.
    if (!isUtf8(value)) throw invalidArgument(`envs[${String(i)}].value: it is not UTF-8`);
  }
  for (const [i, { permissions }] of config.devices.entries()) {
    // Nothing said is all of them.
    if (!/^[rwm]{0,3}$/.test(permissions)) {
      throw invalidArgument(`devices[${String(i)}].permissions: ${JSON.stringify(permissions)}: only r, w and m`);
    }
  }
  for (const [i, { propagation }] of config.mounts.entries()) {
    demandValueOf(MountPropagation, propagation, `mounts[${String(i)}].propagation`);
  }
  const security = config.linux?.securityContext;
  checkSecurityValues(security);
  const { network, pid, ipc, usernsOptions } = security?.namespaceOptions ?? {};
  for (const [name, mode] of Object.entries({ network, pid, ipc, 'userns_options.mode': usernsOptions?.mode })) {
    demandValueOf(NamespaceMode, mode, `linux.security_context.namespace_options.${name}`);
  }
}

/** CRI: relative to the sandbox's log_directory. */
function checkLogPath(path: string): void {
  if (!path.split('/').includes('..')) return;
  throw invalidArgument(`log_path: ${JSON.stringify(path)} leads out of the log directory`);
}

/**
 * What a container's configuration says otherwise than its sandbox's: a sandbox that is not privileged has no privileged container, and a user
 * namespace is the whole pod's. Nothing said of the latter is the sandbox's. Pure. Throws InvalidArgument.
 */
export function checkAgainstSandbox(config: ContainerConfig, sandbox: PodSandboxConfig): void {
  const security = config.linux?.securityContext;
  const ofSandbox = sandbox.linux?.securityContext;
  if (security?.privileged === true && ofSandbox?.privileged !== true) {
    throw invalidArgument('privileged: the sandbox is not privileged, so none of its containers can be');
  }
  const asked = security?.namespaceOptions?.usernsOptions;
  if (asked === undefined) return;
  const theirs = ofSandbox?.namespaceOptions?.usernsOptions ?? { mode: NamespaceMode.NODE, uids: [], gids: [] };
  const isSame = asked.mode === theirs.mode && same(asked.uids, theirs.uids) && same(asked.gids, theirs.gids);
  if (isSame) return;
  throw invalidArgument("namespace_options.userns_options: a container has its sandbox's users, and asks for others");
}

function same(one: readonly IDMapping[], other: readonly IDMapping[]): boolean {
  const text = (mappings: readonly IDMapping[]): string =>
    mappings.map(({ hostId, containerId, length }) => [hostId, containerId, length].join(' ')).join();
  return text(one) === text(other);
}
