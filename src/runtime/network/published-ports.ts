import type { Op } from '../../lib/abort.ts';
import { alreadyExists, isKind } from '../../lib/errors.ts';
import { execFile } from '../../linux/exec.ts';
import { collides, nameOfPort, type Listener, type PortMapping } from './host-ports.ts';
import type { Iptables, IptablesRule } from './iptables.ts';
import { isObject } from './network-config.ts';
import { jsonObject } from './plugin-error.ts';
import { PATH_WITH_SBIN } from './plugin-runner.ts';

/** A host port that the `portmap` plug-in sends to a pod, whichever runtime's. */
export interface PublishedPort extends Listener {
  readonly by: 'iptables' | 'nftables';
  /** What the plug-in was told as CNI_CONTAINERID. */
  readonly containerId: string;
  /** Only the rules of iptables name it. */
  readonly network?: string;
}

/** All host ports go through the rules of this chain, a pod's after those of earlier ones: the first that fits gets the packets. */
const TOP = 'CNI-HOSTPORT-DNAT';
/** Where the plug-in uses nftables by itself (its releases since 2024). */
const NFT_TABLE = ['ip', 'cni_hostport'] as const;
const NFT_CHAINS = ['hostip_hostports', 'hostports'];

/**
 * Who has which of these ports of the host now, in the order in which the kernel asks the rules. Changes nothing. IPv4, as host ports
 * are told apart by their IPv4 address here.
 */
export async function publishedPorts(
  op: Op,
  iptables: Pick<Iptables, 'listChain'>,
  wanted: readonly PortMapping[],
): Promise<PublishedPort[]> {
  const found: PublishedPort[] = [];
  for (const entry of await iptables.listChain(op, 'nat', TOP)) {
    // Others may have thousands of rules: only the chains that can matter are read.
    if (!wanted.some(({ hostPort, protocol }) => mayMatch(entry, protocol, hostPort))) continue;
    const rules = await iptables.listChain(op, 'nat', valueOf(entry, '-j') ?? '');
    found.push(...rules.flatMap((rule) => publishedByRule(entry, rule)));
  }
  return [...found, ...(await publishedByNftables(op))];
}

/** After ADD. Throws AlreadyExists when somebody who came between has the packets of a port; one who came later finds out himself. */
export function mustComeFirst(
  published: readonly PublishedPort[],
  containerId: string,
  ports: readonly PortMapping[],
): void {
  for (const mapping of ports) {
    const claimants = published.filter((port) => collides(mapping, port));
    const at = claimants.findIndex((port) => port.containerId === containerId);
    const mine = claimants[at];
    if (mine === undefined) continue;
    // Which of the two kinds of rules the kernel asks first depends on which came first: then both give way.
    const winner = claimants.find(
      (port, index) => port.containerId !== containerId && (index < at || port.by !== mine.by),
    );
    if (winner === undefined) continue;
    throw alreadyExists(`${nameOfPort(mapping)} is taken: ${describePublisher(winner)}`, {
      details: { hostPort: mapping.hostPort },
    });
  }
}

/** For a person. */
export function describePublisher({ containerId, network }: PublishedPort): string {
  const whose = `the pod sandbox ${containerId.slice(0, 13)}${network === undefined ? '' : ` on network ${network}`}`;
  return `another runtime on this host has published it for ${whose}`;
}

function mayMatch(entry: IptablesRule, protocol: string, port: number): boolean {
  const ports = valueOf(entry, '--dports') ?? valueOf(entry, '--dport');
  if (valueOf(entry, '-p') !== protocol) return false;
  return ports === undefined || ports.split(',').includes(String(port));
}

function publishedByRule(entry: IptablesRule, rule: IptablesRule): PublishedPort[] {
  const protocol = protocolOf(valueOf(rule, '-p'));
  const port = Number(valueOf(rule, '--dport'));
  if (valueOf(rule, '-j') !== 'DNAT' || protocol === undefined || !Number.isInteger(port)) return [];
  const [, network, containerId = ''] = /^dnat name: "(.*)" id: "(.*)"$/.exec(valueOf(entry, '--comment') ?? '') ?? [];
  const address = (valueOf(rule, '-d') ?? '').replace(/\/32$/, '');
  return [{ by: 'iptables', protocol, port, address, containerId, ...(network === undefined ? {} : { network }) }];
}

function valueOf({ spec }: IptablesRule, option: string): string | undefined {
  const at = spec.indexOf(option);
  return at < 0 ? undefined : spec[at + 1];
}

function protocolOf(text: unknown): PortMapping['protocol'] | undefined {
  return text === 'tcp' || text === 'udp' || text === 'sctp' ? text : undefined;
}

/** A host without the program has no such rules: the plug-in makes them with it. */
export async function publishedByNftables(op: Op): Promise<PublishedPort[]> {
  const env = { PATH: `${process.env['PATH'] ?? ''}:${PATH_WITH_SBIN}` };
  try {
    const answer = await execFile(op, 'nft', ['-j', 'list', 'table', ...NFT_TABLE], { env });
    return answer.code === 0 ? parseNftables(answer.stdout) : [];
  } catch (error) {
    if (isKind(error, 'NotFound')) return [];
    throw error;
  }
}

/** Text of `nft -j list table ip cni_hostport`. */
export function parseNftables(text: string): PublishedPort[] {
  const items = jsonObject(text)?.['nftables'];
  const rules = (Array.isArray(items) ? items : []).flatMap((item: unknown) =>
    isObject(item) && isObject(item['rule']) ? [item['rule']] : [],
  );
  return NFT_CHAINS.flatMap((chain) => rules.filter((rule) => rule['chain'] === chain).flatMap(publishedByNftRule));
}

function publishedByNftRule({ comment, expr }: Record<string, unknown>): PublishedPort[] {
  const steps = (Array.isArray(expr) ? expr : []).filter(isObject);
  if (!steps.some((step) => 'dnat' in step)) return [];
  let [address, protocol, port] = ['', undefined as PortMapping['protocol'] | undefined, Number.NaN];
  for (const { match } of steps) {
    const left = isObject(match) && isObject(match['left']) ? match['left']['payload'] : undefined;
    if (!isObject(match) || !isObject(left)) continue;
    if (left['field'] === 'daddr') address = String(match['right']);
    if (left['field'] === 'dport') [protocol, port] = [protocolOf(left['protocol']), Number(match['right'])];
  }
  if (protocol === undefined || !Number.isInteger(port)) return [];
  return [{ by: 'nftables', protocol, port, address, containerId: typeof comment === 'string' ? comment : '' }];
}
