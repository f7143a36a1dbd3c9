import type { Pod } from '../../kube/objects.ts';
import { invalidArgument } from '../../lib/errors.ts';

/** A local port that leads to one of a pod. */
export interface PortPair {
  /** 0: any that is free. */
  readonly local: number;
  readonly remote: number;
}

/**
 * `5000`, `8888:5000`, `:5000` and `0:5000`, as kubectl reads them; the pod's port may be the name that a container has given to it.
 *
 * @throws InvalidArgument
 */
export function parsePortSpec(text: string, pod: Pod): PortPair {
  const [first = '', second, ...more] = text.split(':');
  if (more.length > 0) throw invalidArgument(`invalid port format '${text}'`);
  const wanted = second ?? first;
  if (wanted === '') throw invalidArgument('remote port cannot be empty');
  const named = /^[0-9]+$/.test(wanted) ? undefined : portOfName(pod, wanted);
  const remote = named ?? portNumber('remote', wanted);
  if (remote === 0) throw invalidArgument('remote port must be > 0');
  if (isUdpOnly(pod, remote)) throw invalidArgument(`UDP protocol is not supported for ${wanted}`);
  if (second === undefined) return { local: remote, remote };
  return { local: first === '' ? 0 : portNumber('local', first), remote };
}

function portNumber(which: 'local' | 'remote', text: string): number {
  const port = Number(text);
  if (/^[0-9]{1,5}$/.test(text) && port <= 65_535) return port;
  throw invalidArgument(`error parsing ${which} port '${text}': it should be a number from 0 to 65535`);
}

function portsOf(pod: Pod): NonNullable<Pod['spec']['containers'][number]['ports']> {
  return pod.spec.containers.flatMap(({ ports = [] }) => ports);
}

function portOfName(pod: Pod, name: string): number {
  const found = portsOf(pod).find((port) => port.name === name);
  if (found !== undefined) return found.containerPort;
  throw invalidArgument(`Pod '${pod.metadata.name}' does not have a named port '${name}'`);
}

function isUdpOnly(pod: Pod, port: number): boolean {
  const protocols = portsOf(pod)
    .filter(({ containerPort }) => containerPort === port)
    .map(({ protocol = 'TCP' }) => protocol);
  return protocols.includes('UDP') && !protocols.includes('TCP');
}
