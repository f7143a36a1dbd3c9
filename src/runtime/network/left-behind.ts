import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Op } from '../../lib/abort.ts';
import { isKind } from '../../lib/errors.ts';
import type { Iptables, IptablesRule } from './iptables.ts';
import { isObject, type NetworkConfig, type PluginConfig } from './network-config.ts';
import type { CniResult } from './plugin-chain.ts';
import { publishedByNftables } from './published-ports.ts';
import { dataDirsOf, reservationsIn } from './reservations.ts';

/**
 * Plug-ins of which we know all that they leave outside a pod's namespace: a veth's other end, which goes with the namespace, and rules
 * that name the container. Of others (a network controller's, `firewall`, `bandwidth`) only their own DEL can say that nothing is left.
 */
const KNOWN = new Set(['bridge', 'ptp', 'macvlan', 'ipvlan', 'vlan', 'loopback', 'sbr', 'vrf', 'dummy', 'portmap']);
/** host-local's reservations are files that name the container; static keeps nothing. */
const KNOWN_IPAM = new Set(['', 'host-local', 'static']);
const TABLES: readonly IptablesRule['table'][] = ['nat', 'filter'];

/** Whether what this plug-in holds can be seen without asking it. */
export function canBeSeen({ type, ipam, ipMasqBackend }: PluginConfig): boolean {
  const ipamType = isObject(ipam) ? ipam['type'] : undefined;
  // These rules carry a digest alone.
  if (ipMasqBackend === 'nftables') return false;
  return KNOWN.has(type) && KNOWN_IPAM.has(typeof ipamType === 'string' ? ipamType : '');
}

/**
 * What the machine still has of a connection, in words; empty when nothing is left of it. For networks whose plug-ins
 * {@link canBeSeen}. `netns`: the pod's namespace, if it is there.
 */
export async function leftBehind(
  op: Op,
  iptables: Pick<Iptables, 'list'>,
  network: NetworkConfig,
  { containerId, netns, result }: { containerId: string; netns: string | undefined; result: CniResult | undefined },
): Promise<string[]> {
  const left = netns === undefined ? [] : [`namespace ${netns}`];
  for (const dataDir of dataDirsOf(network)) {
    const mine = (await reservationsIn(join(dataDir, network.name))).filter(({ id }) => id === containerId);
    left.push(...mine.map(({ path }) => `address ${path}`));
  }
  left.push(...(await interfacesOf(result)));
  for (const table of TABLES) {
    const lines = await linesOf(op, iptables, table);
    left.push(...lines.filter((line) => line.includes(containerId)).map((line) => `rule -t ${table} ${line}`));
  }
  const ports = (await publishedByNftables(op)).filter((port) => port.containerId === containerId);
  left.push(...ports.map(({ port, protocol }) => `port ${String(port)}/${protocol} in nftables`));
  return left;
}

/** A host without iptables has no such rules. */
async function linesOf(op: Op, iptables: Pick<Iptables, 'list'>, table: IptablesRule['table']): Promise<string[]> {
  try {
    return await iptables.list(op, table);
  } catch (error) {
    if (isKind(error, 'FailedPrecondition')) return [];
    throw error;
  }
}

/** The host's ends of what ADD said that it made. By address too, as names are used again; a bridge belongs to all its pods. */
async function interfacesOf(result: CniResult | undefined): Promise<string[]> {
  const listed = result?.['interfaces'];
  const left: string[] = [];
  for (const made of Array.isArray(listed) ? listed.filter(isObject) : []) {
    const { name, mac, sandbox } = made;
    if (typeof name !== 'string' || typeof mac !== 'string' || (sandbox !== undefined && sandbox !== '')) continue;
    if (name === '' || name.includes('/')) continue;
    const [there, isBridge] = await Promise.all([textOf(`${name}/address`), textOf(`${name}/bridge/bridge_id`)]);
    if (there?.toLowerCase() === mac.toLowerCase() && isBridge === undefined) left.push(`interface ${name}`);
  }
  return left;
}

async function textOf(path: string): Promise<string | undefined> {
  return await readFile(join('/sys/class/net', path), 'utf8').then(
    (text) => text.trim(),
    () => undefined,
  );
}
