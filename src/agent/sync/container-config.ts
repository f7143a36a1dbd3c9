import { hugePageName } from '../../kube/huge-pages.ts';
import type { Container, VolumeMount } from '../../kube/objects.ts';
import { ContainerConfig, MountPropagation, Signal, type DeepPartial, type Mount } from '../../cri/gen/api.ts';
import {
  ANNOTATION_BOOT,
  ANNOTATION_CRASHES,
  ANNOTATION_HASH,
  ANNOTATION_MESSAGE_PATH,
  ANNOTATION_MESSAGE_POLICY,
  ANNOTATION_POD_GRACE,
  ANNOTATION_PORTS,
  ANNOTATION_PRE_STOP,
  ANNOTATION_RESTART_COUNT,
  LABEL_CONTAINER_NAME,
  LABEL_POD_NAME,
  LABEL_POD_NAMESPACE,
  LABEL_POD_UID,
} from '../pods/names.ts';
import { DEFAULT_GRACE_SECONDS } from '../pods/node-pod.ts';
import { ConfigError } from './config-error.ts';
import { containerHash } from './container-hash.ts';
import { expand } from './expand.ts';
import { cgroupResources } from './resources.ts';
import { containerSecurity, type SecurityInput } from './security-context.ts';

export interface ContainerConfigInput extends SecurityInput {
  readonly attempt: number;
  readonly crashes: number;
  readonly bootId: string;
  readonly env: ReadonlyMap<string, Buffer>;
  /** The image as the runtime names it after the pull. */
  readonly imageRef: string;
  /** Images of the container's volumes of that type as the runtime names them after the pull, by volume. */
  readonly imageVolumes: ReadonlyMap<string, string>;
  /** Host path of each other volume, by name. */
  readonly volumePaths: ReadonlyMap<string, string>;
  /** The pod's /etc/hosts on the host, if the pod gets one. */
  readonly hostsFile: string | undefined;
  /** Below the sandbox's log directory. */
  readonly logPath: string;
  readonly node: Parameters<typeof cgroupResources>[2];
}

/** What the runtime is asked for. Pure. Throws ConfigError for what cannot be asked for. */
export function containerConfig(input: ContainerConfigInput): ContainerConfig {
  const { pod, container, env } = input;
  const lookup = (name: string): string | undefined => env.get(name)?.toString('utf8');
  const resources = cgroupResources(pod.spec, container, input.node);
  return ContainerConfig.fromPartial({
    metadata: { name: container.name, attempt: input.attempt },
    image: { image: input.imageRef, userSpecifiedImage: container.image ?? '' },
    command: (container.command ?? []).map((word) => expand(word, lookup)),
    args: (container.args ?? []).map((word) => expand(word, lookup)),
    workingDir: container.workingDir ?? '',
    envs: [...env].map(([key, value]) => ({ key, value })),
    mounts: mounts(input),
    labels: {
      [LABEL_CONTAINER_NAME]: container.name,
      [LABEL_POD_NAME]: pod.name,
      [LABEL_POD_NAMESPACE]: pod.namespace,
      [LABEL_POD_UID]: pod.uid,
    },
    annotations: annotations(input),
    logPath: input.logPath,
    stdin: container.stdin ?? false,
    stdinOnce: container.stdinOnce ?? false,
    tty: container.tty ?? false,
    stopSignal: stopSignal(container),
    linux: {
      resources: {
        cpuPeriod: BigInt(resources.cpuPeriodUs),
        cpuQuota: BigInt(resources.cpuQuotaUs),
        cpuShares: BigInt(resources.cpuShares),
        memoryLimitInBytes: BigInt(resources.memoryLimitBytes),
        oomScoreAdj: BigInt(resources.oomScoreAdj),
        hugepageLimits: resources.hugePages.map(({ pageBytes, limitBytes }) => ({
          pageSize: hugePageName(pageBytes),
          limit: BigInt(limitBytes),
        })),
      },
      securityContext: containerSecurity(input),
    },
  });
}

function annotations(input: ContainerConfigInput): Record<string, string> {
  const { pod, container } = input;
  const preStop = container.lifecycle?.preStop;
  return {
    [ANNOTATION_HASH]: containerHash(container),
    [ANNOTATION_RESTART_COUNT]: String(input.attempt),
    [ANNOTATION_CRASHES]: String(input.crashes),
    [ANNOTATION_BOOT]: input.bootId,
    [ANNOTATION_MESSAGE_PATH]: container.terminationMessagePath ?? '/dev/termination-log',
    [ANNOTATION_MESSAGE_POLICY]: container.terminationMessagePolicy ?? 'File',
    [ANNOTATION_POD_GRACE]: String(pod.spec.terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS),
    ...(container.ports === undefined ? {} : { [ANNOTATION_PORTS]: JSON.stringify(container.ports) }),
    ...(preStop === undefined ? {} : { [ANNOTATION_PRE_STOP]: JSON.stringify({ preStop }) }),
  };
}

function mounts(input: ContainerConfigInput): DeepPartial<Mount>[] {
  // The agent alone writes these, for every container of the pod at once: Kubernetes mounts them read-only always.
  const ownedFiles = new Set(
    (input.pod.spec.volumes ?? [])
      .filter(({ configMap, secret }) => configMap !== undefined || secret !== undefined)
      .map(({ name }) => name),
  );
  const references = new Map((input.pod.spec.volumes ?? []).map(({ name, image }) => [name, image?.reference]));
  const result = (input.container.volumeMounts ?? []).map((mount): DeepPartial<Mount> => {
    const userSpecifiedImage = references.get(mount.name);
    if (userSpecifiedImage !== undefined) {
      const image = input.imageVolumes.get(mount.name);
      if (image === undefined) throw new ConfigError(`the image of volume "${mount.name}" is not there`);
      return {
        containerPath: containerPath(mount.mountPath),
        image: { image, userSpecifiedImage },
        imageSubPath: mount.subPath ?? '',
        // Whatever the manifest says: there is nothing to write to.
        readonly: true,
        recursiveReadOnly: isRecursive(mount, input),
      };
    }
    const hostPath = input.volumePaths.get(mount.name);
    if (hostPath === undefined) throw new ConfigError(`volume "${mount.name}" is not mounted`);
    return {
      containerPath: containerPath(mount.mountPath),
      hostPath,
      readonly: mount.readOnly === true || ownedFiles.has(mount.name),
      recursiveReadOnly: isRecursive(mount, input),
      propagation: propagation(mount.mountPropagation),
    };
  });
  const ownHosts = result.some(({ containerPath }) => containerPath === '/etc/hosts');
  if (input.hostsFile !== undefined && !ownHosts) {
    result.push({ containerPath: '/etc/hosts', hostPath: input.hostsFile, readonly: false });
  }
  const { userNamespace } = input;
  if (userNamespace === undefined) return result;
  // On the disk a file belongs to whom it belongs to inside: volumes go from pod to pod, and users on the host do not.
  // The runtime maps an image's files with the container's own.
  return result.map((mount) =>
    mount.image === undefined ? { ...mount, uidMappings: [userNamespace], gidMappings: [userNamespace] } : mount,
  );
}

/** Whether what is mounted below a volume is read-only as well. Throws ConfigError where it has to be and the runtime cannot. */
function isRecursive(
  { name, recursiveReadOnly }: VolumeMount,
  { features }: Pick<ContainerConfigInput, 'features'>,
): boolean {
  const can = features.recursiveReadOnlyMounts;
  if (recursiveReadOnly === 'IfPossible') return can;
  if (recursiveReadOnly !== 'Enabled') return false;
  if (can) return true;
  throw new ConfigError(
    `volume "${name}": recursiveReadOnly: Enabled: the OCI runtime or the kernel (before 5.12) has no such mounts; IfPossible does without`,
  );
}

/** Where a mount is in the container: a relative path is read from its root, and a slash at the end means nothing. */
export function containerPath(path: string): string {
  const trimmed = path.replace(/\/+$/, '');
  return trimmed.startsWith('/') ? trimmed : `/${trimmed}`;
}

function propagation(mode: string | undefined): MountPropagation {
  if (mode === 'Bidirectional') return MountPropagation.PROPAGATION_BIDIRECTIONAL;
  if (mode === 'HostToContainer') return MountPropagation.PROPAGATION_HOST_TO_CONTAINER;
  return MountPropagation.PROPAGATION_PRIVATE;
}

function stopSignal(container: Container): Signal {
  const name = container.lifecycle?.stopSignal;
  if (name === undefined) return Signal.RUNTIME_DEFAULT;
  // The schema writes SIGRTMIN+3 as SIGRTMINPLUS3.
  const key = name.replace('+', 'PLUS').replace('-', 'MINUS');
  const value = (Signal as Readonly<Record<string, Signal>>)[key];
  if (value === undefined) throw new ConfigError(`stopSignal ${name} is not a signal`);
  return value;
}
