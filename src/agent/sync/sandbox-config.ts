import type { PodSpec } from '../../kube/objects.ts';
import {
  NamespaceMode,
  PodSandboxConfig,
  Protocol,
  SecurityProfile_ProfileType,
  SupplementalGroupsPolicy,
  type DeepPartial,
  type NamespaceOption,
  type SecurityProfile,
} from '../../cri/gen/api.ts';
import {
  ANNOTATION_CONFIG_SEEN,
  ANNOTATION_CONFIG_SOURCE,
  LABEL_POD_NAME,
  LABEL_POD_NAMESPACE,
  LABEL_POD_UID,
} from '../pods/names.ts';
import type { IdMapping } from '../../linux/id-mappings.ts';
import type { NodePod } from '../pods/node-pod.ts';
import type { DnsConfig } from './dns.ts';
import { hostnameOf } from './hosts-file.ts';

export interface SandboxConfigInput {
  readonly pod: NodePod;
  readonly attempt: number;
  readonly logDirectory: string;
  readonly dns: DnsConfig;
  /** The pod's own: `/gantry/pod<uid>`. */
  readonly cgroupParent: string;
  /** The pod's users and groups on the host; absent: they are the host's own. */
  readonly userNamespace?: IdMapping;
}

/** What the runtime is asked for. Pure: the same pod always gives the same request. */
export function sandboxConfig(input: SandboxConfigInput): PodSandboxConfig {
  const { pod } = input;
  const { spec } = pod;
  const { metadata } = pod.object;
  const security = spec.securityContext;
  return PodSandboxConfig.fromPartial({
    metadata: { name: pod.name, namespace: pod.namespace, uid: pod.uid, attempt: input.attempt },
    hostname: spec.hostNetwork === true ? '' : hostnameOf(pod),
    logDirectory: input.logDirectory,
    dnsConfig: { servers: [...input.dns.servers], searches: [...input.dns.searches], options: [...input.dns.options] },
    portMappings: portMappings(spec),
    labels: {
      ...metadata.labels,
      [LABEL_POD_NAME]: pod.name,
      [LABEL_POD_NAMESPACE]: pod.namespace,
      [LABEL_POD_UID]: pod.uid,
    },
    annotations: {
      ...metadata.annotations,
      [ANNOTATION_CONFIG_SOURCE]: 'api',
      [ANNOTATION_CONFIG_SEEN]: metadata.creationTimestamp,
    },
    linux: {
      cgroupParent: input.cgroupParent,
      sysctls: Object.fromEntries((security?.sysctls ?? []).map(({ name, value }) => [name, value])),
      securityContext: {
        namespaceOptions: namespaceOptions(spec, input.userNamespace),
        runAsUser: int64(security?.runAsUser),
        runAsGroup: int64(security?.runAsGroup),
        supplementalGroups: (security?.supplementalGroups ?? []).map(BigInt),
        supplementalGroupsPolicy:
          security?.supplementalGroupsPolicy === 'Strict'
            ? SupplementalGroupsPolicy.Strict
            : SupplementalGroupsPolicy.Merge,
        privileged: spec.containers.some((container) => container.securityContext?.privileged === true),
        seccomp: seccompProfile(security?.seccompProfile?.type),
      },
    },
  });
}

/** Only ports that ask for one of the host's; on the host's network there is nothing to map. */
function portMappings(spec: PodSpec): DeepPartial<PodSandboxConfig>['portMappings'] {
  if (spec.hostNetwork === true) return [];
  return spec.containers
    .flatMap((container) => container.ports ?? [])
    .filter(({ hostPort = 0 }) => hostPort > 0)
    .map(({ containerPort, hostPort = 0, hostIP = '', protocol = 'TCP' }) => ({
      containerPort,
      hostPort,
      hostIp: hostIP,
      protocol: Protocol[protocol as keyof typeof Protocol],
    }));
}

export function namespaceOptions(spec: PodSpec, userNamespace: IdMapping | undefined): DeepPartial<NamespaceOption> {
  return {
    network: spec.hostNetwork === true ? NamespaceMode.NODE : NamespaceMode.POD,
    pid: pidMode(spec),
    ipc: spec.hostIPC === true ? NamespaceMode.NODE : NamespaceMode.POD,
    ...(userNamespace === undefined
      ? {}
      : { usernsOptions: { mode: NamespaceMode.POD, uids: [userNamespace], gids: [userNamespace] } }),
  };
}

function pidMode(spec: PodSpec): NamespaceMode {
  if (spec.hostPID === true) return NamespaceMode.NODE;
  return spec.shareProcessNamespace === true ? NamespaceMode.POD : NamespaceMode.CONTAINER;
}

/** Of what the runtime itself may run for the sandbox: a file that the pod names is for the pod's own programs. */
function seccompProfile(type: string | undefined): DeepPartial<SecurityProfile> {
  return {
    profileType:
      type === 'Unconfined' ? SecurityProfile_ProfileType.Unconfined : SecurityProfile_ProfileType.RuntimeDefault,
  };
}

export function int64(value: number | undefined): { value: bigint } | undefined {
  return value === undefined ? undefined : { value: BigInt(value) };
}
