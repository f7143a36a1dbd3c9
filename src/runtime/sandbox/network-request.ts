import { Protocol } from '../../cri/gen/api.ts';
import type { NetworkRequest } from '../parts.ts';
import type { SandboxMeta } from '../store/sandbox-record.ts';

const PROTOCOLS = { [Protocol.TCP]: 'tcp', [Protocol.UDP]: 'udp', [Protocol.SCTP]: 'sctp' } as const;

/** What a sandbox's configuration asks of the pod network. */
export function networkRequestOf(meta: SandboxMeta, netnsPath: string): NetworkRequest {
  const { config } = meta;
  return {
    sandboxId: meta.id,
    netnsPath,
    podName: config.metadata?.name ?? '',
    podNamespace: config.metadata?.namespace ?? '',
    podUid: config.metadata?.uid ?? '',
    hostname: meta.facts.hostname,
    annotations: config.annotations,
    // A mapping without a host port maps nothing: it only says what the container listens on.
    portMappings: config.portMappings
      .filter((mapping) => mapping.hostPort > 0)
      .map(({ protocol, containerPort, hostPort, hostIp }) => ({
        protocol: PROTOCOLS[protocol],
        containerPort,
        hostPort,
        ...(hostIp === '' ? {} : { hostIp }),
      })),
  };
}
