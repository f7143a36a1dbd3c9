import { hugePagesResource } from '../../kube/huge-pages.ts';
import type { New, Node, NodeCondition, NodeRuntimeHandler } from '../../kube/objects.ts';
import { rfc3339Seconds } from '../status/kube-time.ts';

export interface NodeInput {
  readonly name: string;
  readonly hostIps: readonly string[];
  readonly cpus: number;
  readonly memoryBytes: number;
  readonly diskBytes: number;
  /** Bytes by the size of a page. */
  readonly hugePages: ReadonlyMap<number, number>;
  readonly machine: {
    readonly architecture: string;
    readonly kernelVersion: string;
    readonly osImage: string;
    readonly machineId: string;
    readonly bootId: string;
  };
  /** `gantry://0.1.0` */
  readonly runtimeVersion: string;
  readonly agentVersion: string;
  /** As the runtime says. */
  readonly runtimeHandlers: readonly NodeRuntimeHandler[];
  readonly features: { readonly supplementalGroupsPolicy: boolean };
  /** What is wrong beside the network; with neither: ready. */
  readonly problems: readonly string[];
  /** Why the runtime can connect no pod, in its own words. */
  readonly networkProblem?: { readonly reason: string; readonly message: string } | undefined;
  /** Why nothing new is taken; absent: there is room on the disk. */
  readonly diskShortage?: string | undefined;
  readonly nowWallMs: number;
  readonly previous: Node | undefined;
}

const MAX_PODS = 110;

/** The Node object of this machine. Pure. */
export function nodeObject(input: NodeInput): New<Node> {
  const { previous, machine } = input;
  const resources = {
    cpu: String(input.cpus),
    memory: `${String(Math.floor(input.memoryBytes / 1024))}Ki`,
    'ephemeral-storage': `${String(Math.floor(input.diskBytes / 1024))}Ki`,
    pods: String(MAX_PODS),
    ...Object.fromEntries([...input.hugePages].map(([page, bytes]) => [hugePagesResource(page), String(bytes)])),
  };
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: {
      ...previous?.metadata,
      name: input.name,
      labels: {
        ...previous?.metadata.labels,
        'kubernetes.io/hostname': input.name,
        'kubernetes.io/os': 'linux',
        'kubernetes.io/arch': machine.architecture,
      },
    },
    ...(previous?.spec === undefined ? {} : { spec: previous.spec }),
    status: {
      ...previous?.status,
      capacity: resources,
      allocatable: resources,
      addresses: [
        ...input.hostIps.map((address) => ({ type: 'InternalIP', address })),
        { type: 'Hostname', address: input.name },
      ],
      conditions: conditions(input),
      runtimeHandlers: [...input.runtimeHandlers],
      features: input.features,
      nodeInfo: {
        architecture: machine.architecture,
        kernelVersion: machine.kernelVersion,
        osImage: machine.osImage,
        machineID: machine.machineId,
        bootID: machine.bootId,
        systemUUID: machine.machineId,
        containerRuntimeVersion: input.runtimeVersion,
        kubeletVersion: input.agentVersion,
        kubeProxyVersion: '',
        operatingSystem: 'linux',
      },
    },
  };
}

function conditions(input: NodeInput): NodeCondition[] {
  const wanted = [
    readyCondition(input),
    {
      type: 'DiskPressure',
      status: input.diskShortage === undefined ? 'False' : 'True',
      reason: input.diskShortage === undefined ? 'KubeletHasNoDiskPressure' : 'KubeletHasDiskPressure',
      message: input.diskShortage ?? 'the disk has room',
    },
  ];
  return wanted.map((condition) => {
    const before = input.previous?.status?.conditions?.find(({ type }) => type === condition.type);
    const now = rfc3339Seconds(input.nowWallMs);
    const since = before?.status === condition.status ? (before.lastTransitionTime ?? now) : now;
    return { ...condition, lastHeartbeatTime: now, lastTransitionTime: since };
  });
}

/** A missing network is the reason by itself if nothing else is wrong: people look for that word. */
function readyCondition({ problems, networkProblem }: NodeInput): Pick<NodeCondition, 'type' | 'status'> & {
  reason: string;
  message: string;
} {
  if (problems.length === 0) {
    return networkProblem === undefined
      ? { type: 'Ready', status: 'True', reason: 'KubeletReady', message: 'gantry is ready' }
      : { type: 'Ready', status: 'False', ...networkProblem };
  }
  const network = networkProblem === undefined ? [] : [`${networkProblem.reason}: ${networkProblem.message}`];
  return { type: 'Ready', status: 'False', reason: 'KubeletNotReady', message: [...network, ...problems].join('; ') };
}
