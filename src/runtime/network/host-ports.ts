import { readFile } from 'node:fs/promises';

export interface PortMapping {
  readonly protocol: 'tcp' | 'udp' | 'sctp';
  readonly containerPort: number;
  /** 0: not published on the host. */
  readonly hostPort: number;
  readonly hostIp?: string;
}

/** An address and port that something listens on; `address` empty for all addresses. */
export interface Listener {
  readonly protocol: PortMapping['protocol'];
  readonly port: number;
  readonly address: string;
}

const TCP_LISTEN = '0A';
const UDP_UNCONNECTED = '07';
const ANY = new Set(['', '0.0.0.0', '::']);

export function published(mappings: readonly PortMapping[]): PortMapping[] {
  return mappings.filter(({ hostPort }) => hostPort > 0);
}

/** `host port 80/tcp` */
export function nameOfPort({ hostPort, protocol }: PortMapping): string {
  return `host port ${String(hostPort)}/${protocol}`;
}

export function collides(mapping: PortMapping, other: Listener): boolean {
  const mine = mapping.hostIp ?? '';
  return (
    mapping.protocol === other.protocol &&
    mapping.hostPort === other.port &&
    (ANY.has(mine) || ANY.has(other.address) || mine === other.address)
  );
}

/** Text of /proc/net/tcp or /proc/net/udp (IPv4). */
export function parseListeners(text: string, protocol: 'tcp' | 'udp'): Listener[] {
  return text.split('\n').flatMap((line) => {
    const [, local, , state] = line.trim().split(/\s+/);
    const match = /^([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4})$/.exec(local ?? '');
    if (match === null || state !== (protocol === 'tcp' ? TCP_LISTEN : UDP_UNCONNECTED)) return [];
    return [{ protocol, port: parseInt(match[2] ?? '0', 16), address: parseAddress(match[1] ?? '') }];
  });
}

/** IPv4 in the machine's byte order. An IPv6 wildcard takes IPv4 connections, too; other IPv6 addresses do not matter here. */
function parseAddress(hex: string): string {
  if (/^0+$/.test(hex)) return '';
  if (hex.length > 8) return 'ipv6';
  return [6, 4, 2, 0].map((at) => String(parseInt(hex.slice(at, at + 2), 16))).join('.');
}

/** What listens on this host now. */
export async function hostListeners(): Promise<Listener[]> {
  const read = (file: string): Promise<string> => readFile(`/proc/net/${file}`, 'utf8').catch(() => '');
  const [tcp, tcp6, udp, udp6] = await Promise.all([read('tcp'), read('tcp6'), read('udp'), read('udp6')]);
  return [
    ...[tcp, tcp6].flatMap((text) => parseListeners(text, 'tcp')),
    ...[udp, udp6].flatMap((text) => parseListeners(text, 'udp')),
  ];
}
