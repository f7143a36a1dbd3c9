import type { PodSpec } from '../../kube/objects.ts';

/** The lines of a resolv.conf, as CRI takes them. */
export interface DnsConfig {
  readonly servers: readonly string[];
  readonly searches: readonly string[];
  readonly options: readonly string[];
}

/** What the resolver library reads at most. */
const MAX_SERVERS = 3;
const MAX_SEARCHES = 32;

export function parseResolvConf(text: string): DnsConfig {
  const servers: string[] = [];
  let searches: string[] = [];
  let options: string[] = [];
  for (const line of text.split('\n')) {
    const [keyword, ...words] = line
      .replace(/[#;].*/, '')
      .trim()
      .split(/\s+/);
    if (keyword === 'nameserver' && words[0] !== undefined) servers.push(words[0]);
    // The last line wins, as in the resolver itself.
    if (keyword === 'search' || keyword === 'domain') searches = words;
    if (keyword === 'options') options = [...options, ...words];
  }
  return { servers, searches, options };
}

/**
 * The pod's resolv.conf. There is no cluster DNS on one machine, so ClusterFirst means the host's own resolvers, as
 * Default does. A host that resolves through its own loopback (systemd-resolved) cannot be reached at that address
 * from a pod's network: `upstream` is what that resolver itself asks.
 */
export function dnsConfig(spec: PodSpec, host: DnsConfig, upstream: DnsConfig | undefined): DnsConfig {
  const base = spec.dnsPolicy === 'None' ? { servers: [], searches: [], options: [] } : forPod(spec, host, upstream);
  const { nameservers = [], searches = [], options = [] } = spec.dnsConfig ?? {};
  const extra = options.map(({ name = '', value }) =>
    value === undefined || value === '' ? name : `${name}:${value}`,
  );
  const overridden = new Set(options.map(({ name }) => name));
  return {
    servers: unique([...base.servers, ...nameservers]).slice(0, MAX_SERVERS),
    searches: unique([...base.searches, ...searches]).slice(0, MAX_SEARCHES),
    options: [...base.options.filter((option) => !overridden.has(option.split(':')[0] ?? '')), ...extra],
  };
}

function forPod(spec: PodSpec, host: DnsConfig, upstream: DnsConfig | undefined): DnsConfig {
  if (spec.hostNetwork === true) return host;
  const reachable = (config: DnsConfig): string[] => config.servers.filter((server) => !isLoopback(server));
  const servers = reachable(host);
  if (servers.length > 0 || upstream === undefined) return { ...host, servers };
  return { ...host, servers: reachable(upstream) };
}

function isLoopback(server: string): boolean {
  return server.startsWith('127.') || server === '::1';
}

function unique(items: readonly string[]): string[] {
  return [...new Set(items)];
}
