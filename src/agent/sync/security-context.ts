import { join } from 'node:path';
import type { AppArmorProfile, Container, PodSpec, SeccompProfile, SecurityContext } from '../../kube/objects.ts';
import {
  SecurityProfile_ProfileType,
  SupplementalGroupsPolicy,
  type DeepPartial,
  type LinuxContainerSecurityContext,
  type SecurityProfile,
} from '../../cri/gen/api.ts';
import type { IdMapping } from '../../linux/id-mappings.ts';
import type { RuntimeFeatures } from '../node/runtime-features.ts';
import type { NodePod } from '../pods/node-pod.ts';
import { ConfigError } from './config-error.ts';
import { int64, namespaceOptions } from './sandbox-config.ts';

export interface SecurityInput {
  readonly pod: NodePod;
  readonly container: Container;
  /** User that the image asks for, to hold `runAsNonRoot` against. */
  readonly imageUser: ImageUser;
  /** Folder of the host's that `localhostProfile` of a seccomp profile is looked up in. */
  readonly seccompProfileRoot: string;
  /** As in the sandbox's configuration. */
  readonly userNamespace?: IdMapping;
  readonly features: RuntimeFeatures;
}

export type ImageUser =
  { readonly kind: 'uid'; readonly uid: bigint } | { readonly kind: 'name'; readonly name: string };

/** Who a container's processes are, and what they may do. Pure. Throws ConfigError for what cannot be asked for. */
export function containerSecurity(input: SecurityInput): DeepPartial<LinuxContainerSecurityContext> {
  const { pod, container } = input;
  const of = <K extends keyof SecurityContext>(field: K): SecurityContext[K] => container.securityContext?.[field];
  const common = pod.spec.securityContext;
  const runAsUser = of('runAsUser') ?? common?.runAsUser;
  const runAsGroup = of('runAsGroup') ?? common?.runAsGroup;
  const privileged = of('privileged') ?? false;
  if ((of('runAsNonRoot') ?? common?.runAsNonRoot) === true) refuseRoot(input, runAsUser);
  const user = runAsUser === undefined ? imageUser(input.imageUser) : { runAsUser: int64(runAsUser) };
  const capabilities = of('capabilities');
  const allOfProc = privileged || of('procMount') === 'Unmasked';
  return {
    ...user,
    runAsGroup: int64(runAsGroup),
    supplementalGroups: (common?.supplementalGroups ?? []).map(BigInt),
    supplementalGroupsPolicy: groupsPolicy(input),
    privileged,
    readonlyRootfs: of('readOnlyRootFilesystem') ?? false,
    noNewPrivs: of('allowPrivilegeEscalation') === false,
    capabilities: {
      addCapabilities: (capabilities?.add ?? []).map((name) => name.replace(/^CAP_/i, '')),
      dropCapabilities: (capabilities?.drop ?? []).map((name) => name.replace(/^CAP_/i, '')),
    },
    namespaceOptions: namespaceOptions(pod.spec, input.userNamespace),
    seccomp: privileged ? UNCONFINED : seccompProfile(of('seccompProfile') ?? common?.seccompProfile, input),
    apparmor: appArmorProfile(appArmorOf(pod.spec, container)),
    maskedPaths: allOfProc ? [] : MASKED_PATHS,
    readonlyPaths: allOfProc ? [] : READONLY_PATHS,
  };
}

/** A runtime that does not know the field would give the image's groups, too. */
function groupsPolicy({ pod, container, features }: SecurityInput): SupplementalGroupsPolicy {
  if (pod.spec.securityContext?.supplementalGroupsPolicy !== 'Strict') return SupplementalGroupsPolicy.Merge;
  if (features.supplementalGroupsPolicy) return SupplementalGroupsPolicy.Strict;
  throw new ConfigError(`container ${container.name}: the runtime does not know supplementalGroupsPolicy: Strict`);
}

const UNCONFINED: DeepPartial<SecurityProfile> = { profileType: SecurityProfile_ProfileType.Unconfined };
const RUNTIME_DEFAULT: DeepPartial<SecurityProfile> = { profileType: SecurityProfile_ProfileType.RuntimeDefault };

/** Nothing asked for: the runtime's default profile, which is what people expect a container to have. */
function seccompProfile(
  profile: SeccompProfile | undefined,
  { container, seccompProfileRoot }: SecurityInput,
): DeepPartial<SecurityProfile> {
  if (profile?.type === 'Unconfined') return UNCONFINED;
  if (profile?.type !== 'Localhost') return RUNTIME_DEFAULT;
  if (profile.localhostProfile === undefined) {
    throw new ConfigError(`container ${container.name}: a seccomp profile of type Localhost needs localhostProfile`);
  }
  const localhostRef = join(seccompProfileRoot, profile.localhostProfile);
  return { profileType: SecurityProfile_ProfileType.Localhost, localhostRef };
}

/** Nothing asked for: whatever the runtime gives. */
function appArmorProfile(profile: AppArmorProfile | undefined): DeepPartial<SecurityProfile> | undefined {
  if (profile === undefined) return undefined;
  if (profile.type === 'Unconfined') return UNCONFINED;
  if (profile.type !== 'Localhost') return RUNTIME_DEFAULT;
  return { profileType: SecurityProfile_ProfileType.Localhost, localhostRef: profile.localhostProfile ?? '' };
}

/** The container's own, else the pod's. */
export function appArmorOf(spec: PodSpec, container: Container): AppArmorProfile | undefined {
  return container.securityContext?.appArmorProfile ?? spec.securityContext?.appArmorProfile;
}

function imageUser(user: ImageUser): DeepPartial<LinuxContainerSecurityContext> {
  if (user.kind === 'uid') return { runAsUser: { value: user.uid } };
  return user.name === '' ? {} : { runAsUsername: user.name };
}

function refuseRoot(input: SecurityInput, runAsUser: number | undefined): void {
  const { imageUser: user, container } = input;
  if (runAsUser !== undefined) {
    if (runAsUser !== 0) return;
    throw new ConfigError(`container ${container.name} has runAsNonRoot, and runAsUser is root`);
  }
  if (user.kind === 'name' && user.name !== '') {
    throw new ConfigError(
      `container ${container.name} has runAsNonRoot, and its image's user ${user.name} is a name: set runAsUser to be sure that it is not root`,
    );
  }
  if (user.kind === 'name' || user.uid === 0n) {
    throw new ConfigError(`container ${container.name} has runAsNonRoot, and its image runs as root`);
  }
}

/** What of /proc and /sys would tell or change too much about the machine: the field's own list. */
const MASKED_PATHS: string[] = [
  '/proc/asound',
  '/proc/acpi',
  '/proc/interrupts',
  '/proc/kcore',
  '/proc/keys',
  '/proc/latency_stats',
  '/proc/timer_list',
  '/proc/timer_stats',
  '/proc/sched_debug',
  '/proc/scsi',
  '/sys/firmware',
  '/sys/devices/virtual/powercap',
];

const READONLY_PATHS: string[] = ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger'];
