import { internal } from '../../lib/errors.ts';
import type { DefaultNetwork } from './default-network.ts';
import type { PortMapping } from './host-ports.ts';
import { isObject, type NetworkConfig } from './network-config.ts';
import type { Attachment, CniResult, FailedAdd } from './plugin-chain.ts';

export interface NetworkRequest {
  readonly sandboxId: string;
  readonly netnsPath: string;
  readonly podName: string;
  readonly podNamespace: string;
  readonly podUid: string;
  readonly portMappings: readonly PortMapping[];
  readonly annotations?: Readonly<Record<string, string>>;
}

/**
 * All that connecting and disconnecting one pod needs, as plain data for the ledger: taking it down later must not depend on a
 * configuration that may be another one by then, or gone (FAILURES.md row 31).
 */
export interface Plan {
  readonly version: 1;
  readonly network: NetworkConfig;
  readonly attachment: Attachment;
  readonly ports: readonly PortMapping[];
  /** Where the plug-ins were found. */
  readonly binDirs: readonly string[];
  /** The configuration file; absent for the default network. */
  readonly source?: string;
  /** The default network, if it is that. */
  readonly host?: DefaultNetwork;
  /** Of ADD, once it succeeded. */
  readonly result?: CniResult;
  /** Of ADD, when a plug-in failed. */
  readonly failedAdd?: FailedAdd;
}

/** Plain data, as the ledger keeps it. */
export type PlainPlan = Readonly<Record<string, unknown>>;

const INTERFACE = 'eth0';

/** Pure. */
export function makePlan(
  request: NetworkRequest,
  network: NetworkConfig,
  binDirs: readonly string[],
  origin: { readonly source: string } | { readonly host: DefaultNetwork },
): Plan {
  const ports = request.portMappings.filter(({ hostPort }) => hostPort > 0);
  return {
    version: 1,
    network: forPorts(network, ports),
    attachment: {
      containerId: request.sandboxId,
      ifName: INTERFACE,
      args: {
        IgnoreUnknown: '1',
        K8S_POD_NAMESPACE: request.podNamespace,
        K8S_POD_NAME: request.podName,
        K8S_POD_INFRA_CONTAINER_ID: request.sandboxId,
        K8S_POD_UID: request.podUid,
      },
      capabilities: {
        ...(ports.length === 0 ? {} : { portMappings: ports.map(cniPortMapping) }),
        ...(request.annotations === undefined ? {} : { 'io.kubernetes.cri.pod-annotations': request.annotations }),
      },
    },
    ports,
    binDirs,
    ...origin,
  };
}

/** `portmap` costs more than all the rest together and has nothing to do for a pod without host ports. */
export function forPorts(network: NetworkConfig, ports: readonly PortMapping[]): NetworkConfig {
  const plugins = network.plugins.filter(
    ({ type, capabilities }) => ports.length > 0 || type !== 'portmap' || capabilities?.['portMappings'] !== true,
  );
  return { ...network, plugins: plugins.length === 0 ? network.plugins : plugins };
}

function cniPortMapping({ protocol, containerPort, hostPort, hostIp }: PortMapping): Record<string, unknown> {
  return { hostPort, containerPort, protocol, ...(hostIp === undefined || hostIp === '' ? {} : { hostIP: hostIp }) };
}

/** What the ledger gave back. It was written by {@link makePlan}; Internal when it was not. */
export function readPlan(plain: PlainPlan): Plan {
  const { version, network, attachment } = plain;
  if (version !== 1 || !isObject(network) || !isObject(attachment)) {
    throw internal('the ledger has a network plan that cannot be read');
  }
  return plain as unknown as Plan;
}

export function toPlain(plan: Plan): PlainPlan {
  return plan as unknown as PlainPlan;
}

/** Which pod a plan is of. */
export interface ConnectedPod {
  readonly sandboxId: string;
  readonly podNamespace: string;
  readonly podName: string;
  readonly podUid: string;
}

export function subjectOf({ attachment: { containerId, args } }: Plan): ConnectedPod {
  const { K8S_POD_NAMESPACE = '', K8S_POD_NAME = '', K8S_POD_UID = '' } = args;
  return { sandboxId: containerId, podNamespace: K8S_POD_NAMESPACE, podName: K8S_POD_NAME, podUid: K8S_POD_UID };
}
