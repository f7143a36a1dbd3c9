import { basename, join } from 'node:path';
import { NamespaceMode, type PodSandboxConfig, type PodSandboxMetadata } from '../../cri/gen/api.ts';
import { invalidArgument } from '../../lib/errors.ts';
import { podSysctl } from '../../linux/sysctl-name.ts';
import { requestedCgroup, type CgroupSettings } from '../cgroup-layout.ts';
import type { WorkingRuntime } from '../oci/probe.ts';
import type { SandboxFacts, SandboxNamespaces } from '../store/sandbox-record.ts';
import { userNamespaceOf } from './user-namespace.ts';

export interface SandboxHost extends CgroupSettings {
  readonly netnsDir: string;
  readonly hostname: string;
  /** That is asked for. */
  readonly handler: Pick<WorkingRuntime, 'runtime' | 'features'>;
}

/** Decides what a sandbox will be. Pure. Throws InvalidArgument for what cannot be, NotImplemented for what is not there yet. */
export function planSandbox(
  id: string,
  config: PodSandboxConfig,
  runtimeHandler: string,
  host: SandboxHost,
): SandboxFacts {
  const metadata = metadataOf(config);
  const namespaces = namespacesOf(config);
  sortSysctls(config.linux?.sysctls ?? {}, namespaces);
  const idMappings = userNamespaceOf(config, namespaces, host.handler.features);
  const facts: SandboxFacts = {
    name: [metadata.name, metadata.namespace, metadata.uid, String(metadata.attempt)].join('_'),
    runtimeHandler,
    runtime: host.handler.runtime,
    ...(idMappings === undefined ? {} : { idMappings }),
    namespaces,
    hostname: namespaces.uts === 'host' || config.hostname === '' ? host.hostname : config.hostname,
    cgroupPath: requestedCgroup(host, config.linux?.cgroupParent ?? '', id),
  };
  return namespaces.network === 'pod'
    ? { ...facts, netnsPath: join(host.netnsDir, `gantry-${host.instance}-${id.slice(0, 16)}`) }
    : facts;
}

function metadataOf(config: PodSandboxConfig): PodSandboxMetadata {
  const { metadata } = config;
  if (metadata === undefined) throw invalidArgument('the sandbox configuration has no metadata');
  if (metadata.name === '') throw invalidArgument('the sandbox configuration has no metadata.name');
  return metadata;
}

/** Which namespaces the pod has of its own. What is not said is the first value of CRI's enum: the pod's. */
export function namespacesOf(config: PodSandboxConfig): SandboxNamespaces {
  const options = config.linux?.securityContext?.namespaceOptions;
  const network = options?.network ?? NamespaceMode.POD;
  const pid = options?.pid ?? NamespaceMode.POD;
  const ipc = options?.ipc ?? NamespaceMode.POD;
  if (network !== NamespaceMode.POD && network !== NamespaceMode.NODE) {
    throw invalidArgument(`network namespace mode ${String(network)} is not one of POD and NODE`);
  }
  const mode = (value: number, what: string): 'pod' | 'own' | 'host' => {
    switch (value) {
      case NamespaceMode.POD:
        return 'pod';
      case NamespaceMode.CONTAINER:
        return 'own';
      case NamespaceMode.NODE:
        return 'host';
      default:
        throw invalidArgument(`${what} namespace mode ${String(value)} is none of POD, CONTAINER and NODE`);
    }
  };
  const netAndUts = network === NamespaceMode.NODE ? 'host' : 'pod';
  return { network: netAndUts, uts: netAndUts, pid: mode(pid, 'PID'), ipc: mode(ipc, 'IPC') };
}

export interface SortedSysctls {
  /** To be set in the namespaces that are pinned for the pod. */
  readonly pinned: Readonly<Record<string, string>>;
  /** IPC ones where each container has an IPC namespace of its own. */
  readonly perContainer: Readonly<Record<string, string>>;
}

/**
 * Which sysctl goes where. Throws InvalidArgument for one that is the whole host's, or whose namespace the pod shares with
 * the host: setting it would change the host.
 */
export function sortSysctls(sysctls: Readonly<Record<string, string>>, namespaces: SandboxNamespaces): SortedSysctls {
  const pinned: Record<string, string> = {};
  const perContainer: Record<string, string> = {};
  for (const [name, value] of Object.entries(sysctls)) {
    const { namespace, path } = podSysctl(name);
    if (namespace === 'net') {
      if (namespaces.network === 'host') throw invalidArgument(`sysctl ${name}: the pod has the host's network`);
      pinned[path] = value;
    } else {
      if (namespaces.ipc === 'host') throw invalidArgument(`sysctl ${name}: the pod has the host's IPC namespace`);
      // The OCI runtime knows these with dots.
      if (namespaces.ipc === 'pod') pinned[path] = value;
      else perContainer[path.replaceAll('/', '.')] = value;
    }
  }
  return { pinned, perContainer };
}

/** Whether a name in the netns folder is one of this instance's. */
export function isOurNetns(path: string, instance: string): boolean {
  return basename(path).startsWith(`gantry-${instance}-`);
}
