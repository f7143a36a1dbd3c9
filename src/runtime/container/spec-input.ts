import { NamespaceMode, type LinuxContainerSecurityContext } from '../../cri/gen/api.ts';
import { failedPrecondition } from '../../lib/errors.ts';
import type {
  ContainerSpecInput,
  DeviceInput,
  HostFacts,
  NamespaceChoice,
  ResolvedUser,
  ResourcesInput,
} from '../oci/container-spec-input.ts';
import type { OciFeatures } from '../oci/runtime-features.ts';
import type { OciDevice, OciSeccomp } from '../oci/spec.ts';
import { sortSysctls } from '../sandbox/plan-sandbox.ts';
import type { ContainerMeta } from '../store/container-record.ts';
import type { SandboxPaths } from '../store/paths.ts';
import { cgroupDriverOf, type SandboxMeta } from '../store/sandbox-record.ts';
import { mountInputs } from './mount-inputs.ts';
import { resourcesInput } from './resources.ts';

/** What has to be looked up in the world before the specification can be written. */
export interface SpecFacts {
  readonly host: HostFacts;
  readonly features: OciFeatures;
  readonly rootfs: string;
  readonly sandboxPaths: SandboxPaths;
  readonly user: ResolvedUser;
  readonly seccomp?: OciSeccomp;
  /** Loaded. */
  readonly apparmorProfile?: string;
  readonly devices: readonly DeviceInput[];
  /** Of a privileged container. */
  readonly hostDevices?: readonly OciDevice[];
  /** Of each mount of the configuration; absent while it is only checked. */
  readonly mountSources?: readonly string[];
  /** As they were updated before the start; absent: those of the configuration. */
  readonly resources?: ResourcesInput;
  /** `/proc/<pid>/ns/pid` of the pod's infra process, and of the container that CRI's TARGET mode names. */
  readonly podPidNamespace?: string;
  readonly targetPidNamespace?: string;
}

/** CRI's container configuration as the input of its OCI specification. Pure. Throws InvalidArgument, NotImplemented. */
export function specInputOf(
  { config, facts }: ContainerMeta,
  sandbox: SandboxMeta,
  world: SpecFacts,
): ContainerSpecInput {
  const security = config.linux?.securityContext;
  const { namespaces } = sandbox.facts;
  const paths = world.sandboxPaths;
  return {
    host: world.host,
    rootfs: world.rootfs,
    readOnlyRootfs: security?.readonlyRootfs === true,
    image: facts.image,
    command: config.command,
    args: config.args,
    env: config.envs.map(({ key, value }) => ({ name: key, value: value.toString('utf8') })),
    workingDir: config.workingDir,
    user: world.user,
    terminal: config.tty,
    hostname: sandbox.facts.hostname,
    privileged: security?.privileged === true,
    noNewPrivileges: security?.noNewPrivs === true,
    addCapabilities: security?.capabilities?.addCapabilities ?? [],
    dropCapabilities: security?.capabilities?.dropCapabilities ?? [],
    addAmbientCapabilities: security?.capabilities?.addAmbientCapabilities ?? [],
    ...(world.seccomp === undefined ? {} : { seccomp: world.seccomp }),
    ...(world.apparmorProfile === undefined ? {} : { apparmorProfile: world.apparmorProfile }),
    ...hiddenPaths(security, sandbox.facts.idMappings !== undefined),
    namespaces: {
      network: namespaces.network === 'host' ? { kind: 'host' } : { kind: 'path', path: sandbox.facts.netnsPath ?? '' },
      uts: namespaces.uts === 'host' ? { kind: 'host' } : { kind: 'path', path: paths.uts },
      ipc: ipcNamespace(namespaces.ipc, paths),
      pid: pidNamespace(security, sandbox, world),
    },
    ...(sandbox.facts.idMappings === undefined ? {} : { userNamespace: paths.user }),
    sysctls: sortSysctls(sandbox.config.linux?.sysctls ?? {}, namespaces).perContainer,
    ...(namespaces.ipc === 'own' ? {} : { shmPath: namespaces.ipc === 'host' ? '/dev/shm' : paths.shm }),
    hostsPath: paths.hosts,
    hostnamePath: paths.hostname,
    resolvConfPath: paths.resolvConf,
    mounts: mountInputs(config, world.features, world.mountSources),
    devices: world.devices,
    ...(world.hostDevices === undefined ? {} : { hostDevices: world.hostDevices }),
    resources: world.resources ?? resourcesInput(config.linux?.resources),
    cgroupPath: facts.cgroupPath,
    systemdCgroup: cgroupDriverOf(sandbox.facts) === 'systemd',
  };
}

/**
 * What of /proc and /sys is masked or read-only; what is absent is as by default. On the wire "none" and "not said" look alike. A kubelet names the
 * paths always, but for `procMount: Unmasked`, which only pods with users of their own can have: there none means none. With the host's users it
 * means the defaults, for clients that name nothing.
 */
export function hiddenPaths(
  { maskedPaths = [], readonlyPaths = [] }: Partial<LinuxContainerSecurityContext> = {},
  hasOwnUsers: boolean,
): Pick<ContainerSpecInput, 'maskedPaths' | 'readonlyPaths'> {
  return {
    ...(hasOwnUsers || maskedPaths.length > 0 ? { maskedPaths } : {}),
    ...(hasOwnUsers || readonlyPaths.length > 0 ? { readonlyPaths } : {}),
  };
}

function ipcNamespace(mode: 'pod' | 'own' | 'host', paths: SandboxPaths): NamespaceChoice {
  switch (mode) {
    case 'pod':
      return { kind: 'path', path: paths.ipc };
    case 'own':
      return { kind: 'new' };
    case 'host':
      return { kind: 'host' };
  }
}

/** The container's own word on its PID namespace, else the sandbox's. */
export function pidModeOf(security: LinuxContainerSecurityContext | undefined, sandbox: SandboxMeta): NamespaceMode {
  const own = security?.namespaceOptions?.pid;
  if (own !== undefined) return own;
  const modes = { pod: NamespaceMode.POD, own: NamespaceMode.CONTAINER, host: NamespaceMode.NODE } as const;
  return modes[sandbox.facts.namespaces.pid];
}

function pidNamespace(
  security: LinuxContainerSecurityContext | undefined,
  sandbox: SandboxMeta,
  world: SpecFacts,
): NamespaceChoice {
  switch (pidModeOf(security, sandbox)) {
    case NamespaceMode.POD:
      if (sandbox.facts.namespaces.pid !== 'pod') return { kind: 'new' };
      if (world.podPidNamespace === undefined) throw failedPrecondition("the pod's PID namespace is gone");
      return { kind: 'path', path: world.podPidNamespace };
    case NamespaceMode.CONTAINER:
      return { kind: 'new' };
    case NamespaceMode.NODE:
      return { kind: 'host' };
    case NamespaceMode.TARGET:
      if (world.targetPidNamespace === undefined) throw failedPrecondition('the target container does not run');
      return { kind: 'path', path: world.targetPidNamespace };
  }
}
