import type { IdMappings } from '../../linux/id-mappings.ts';
import type { OciDevice, OciNamespaceType, OciSeccomp } from './spec.ts';

/** What of an image's configuration decides how its containers run. */
export interface ImageProcessDefaults {
  readonly entrypoint?: readonly string[];
  readonly cmd?: readonly string[];
  readonly env?: readonly string[];
  readonly workingDir?: string;
}

/** Facts about the host and about what this process may do, gathered once at start. */
export interface HostFacts {
  readonly cgroupMode: 'v1' | 'hybrid' | 'v2';
  /** Names (`CAP_CHOWN`) in the daemon's own bounding set: more cannot be given to a container. */
  readonly boundingCapabilities: readonly string[];
  /** Number of the last one that the kernel has. */
  readonly lastCapability: number;
  /** Our own `oom_score_adj`, and whether CAP_SYS_RESOURCE lets us go below it. */
  readonly oomScoreAdj: number;
  readonly mayLowerOomScoreAdj: boolean;
  /** Whether swap can be limited, and which sizes of huge pages (`2MB`): the kernel or its command line may leave either out. */
  readonly swapAccounting: boolean;
  readonly hugePageSizes: readonly string[];
  /** Whether the kernel has it, and it is on. */
  readonly appArmor: boolean;
  readonly seLinux: boolean;
}

export type NamespaceChoice =
  | { readonly kind: 'new' }
  /** The host's own: no entry in the specification. */
  | { readonly kind: 'host' }
  | { readonly kind: 'path'; readonly path: string };

export interface MountInput {
  readonly containerPath: string;
  readonly hostPath: string;
  readonly readOnly?: boolean;
  /** With what is mounted below the source; only with `readOnly` and private propagation, and where the OCI runtime knows `rro`. */
  readonly recursiveReadOnly?: boolean;
  readonly propagation?: 'private' | 'rslave' | 'rshared';
  /** Whom the files of the source belong to inside. */
  readonly idMappings?: IdMappings;
}

export interface DeviceInput {
  readonly containerPath: string;
  readonly device: OciDevice;
  /** Any of `rwm`. */
  readonly permissions: string;
}

/** In the CRI's units. Zero or absent: not limited, as the CRI says. */
export interface ResourcesInput {
  readonly cpuShares?: number;
  readonly cpuQuotaUs?: number;
  readonly cpuPeriodUs?: number;
  readonly cpusetCpus?: string;
  readonly cpusetMems?: string;
  readonly memoryLimitBytes?: number;
  /** Memory plus swap. */
  readonly memorySwapLimitBytes?: number;
  readonly hugepageLimits?: readonly { readonly pageSize: string; readonly limitBytes: number }[];
  /** cgroup v2 files by name. */
  readonly unified?: Readonly<Record<string, string>>;
  readonly oomScoreAdj?: number;
}

export interface ResolvedUser {
  readonly uid: number;
  readonly gid: number;
  readonly additionalGids: readonly number[];
  /** From the passwd file, for `HOME`. */
  readonly home?: string;
}

/** Everything that decides a container's `config.json`: plain data, already resolved against image and host. */
export interface ContainerSpecInput {
  readonly host: HostFacts;
  /** Absolute path of the mounted root file system. */
  readonly rootfs: string;
  readonly readOnlyRootfs?: boolean;
  readonly image: ImageProcessDefaults;
  /** Replaces the image's entrypoint (and drops its cmd); absent or empty: the image's. */
  readonly command?: readonly string[];
  /** Replaces the image's cmd; absent or empty: the image's. */
  readonly args?: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value: string }[];
  readonly workingDir?: string;
  readonly user: ResolvedUser;
  readonly terminal?: boolean;
  /** Absent where the pod has the host's network: the host's name is used then. */
  readonly hostname?: string;

  readonly privileged?: boolean;
  readonly noNewPrivileges?: boolean;
  /** Names with or without `CAP_`, any case, or `ALL`. */
  readonly addCapabilities?: readonly string[];
  readonly dropCapabilities?: readonly string[];
  readonly addAmbientCapabilities?: readonly string[];
  /** Resolved profile; absent: unconfined. */
  readonly seccomp?: OciSeccomp;
  readonly apparmorProfile?: string;
  /** Absent: the field's defaults. Empty: none. Privileged: always none. */
  readonly maskedPaths?: readonly string[];
  readonly readonlyPaths?: readonly string[];

  /** `mount` is always new. `cgroup` is the runtime's choice. */
  readonly namespaces: Readonly<Record<Exclude<OciNamespaceType, 'mount' | 'user' | 'cgroup'>, NamespaceChoice>>;
  /** Pin of the pod's user namespace, where it has one. */
  readonly userNamespace?: string;
  readonly sysctls?: Readonly<Record<string, string>>;

  /** Files and directories bound over the image's own, unless `mounts` says otherwise for the same path. */
  readonly shmPath?: string;
  readonly hostsPath?: string;
  readonly hostnamePath?: string;
  readonly resolvConfPath?: string;
  readonly mounts?: readonly MountInput[];
  readonly devices?: readonly DeviceInput[];
  /** Every device node of the host's /dev, as it is now; given to privileged containers alone. */
  readonly hostDevices?: readonly OciDevice[];

  readonly resources?: ResourcesInput;
  /** Path below the cgroup mounts, made by the OCI runtime: `/gantry-x/pod<uid>/<container id>`. */
  readonly cgroupPath: string;
  /** It is a scope's of systemd's. */
  readonly systemdCgroup?: boolean;
  readonly annotations?: Readonly<Record<string, string>>;
}
