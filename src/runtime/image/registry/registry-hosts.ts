import { readdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Op } from '../../../lib/abort.ts';
import { errnoOf, failedPrecondition } from '../../../lib/errors.ts';
import { readNamedFile } from '../../../linux/read-named-file.ts';
import { DEFAULT_DOMAIN } from '../reference.ts';
import { parseHostsToml, type HostEntry } from './hosts-toml.ts';

/** A host to ask for an image, in the order of asking. */
export interface RegistryHost {
  /** The API's root, with `/v2` unless the configuration says otherwise. No trailing slash. */
  readonly base: URL;
  readonly canPull: boolean;
  readonly canResolve: boolean;
  readonly tls: HostTls;
  readonly headers: Readonly<Record<string, string>>;
  /** The registry itself or what the configuration puts in its place, as opposed to a mirror. */
  readonly isUpstream: boolean;
  /** The registry that another host stands for: told to it as `ns`, so that one mirror can serve several. */
  readonly standsFor?: string;
}

export interface HostTls {
  readonly skipVerify: boolean;
  readonly ca: readonly string[];
  readonly client: readonly { readonly cert: string; readonly key?: string }[];
}

const LARGEST_HOSTS_BYTES = 1 << 20;

const PLAIN: Omit<HostEntry, 'server'> = {
  canPull: true,
  canResolve: true,
  skipVerify: false,
  overridePath: false,
  ca: [],
  client: [],
  headers: {},
};

/**
 * Which hosts to ask for a registry's images: mirrors of `certs.d/<host>/hosts.toml` (or `certs.d/_default`), then the
 * registry itself. Without a configuration it is https, and http for this machine. Read anew for every pull, so that
 * a changed file counts at once. Throws FailedPrecondition for a file that cannot be understood: the
 * others' images can be pulled all the same.
 */
export async function registryHosts(op: Op, configDir: string | undefined, domain: string): Promise<RegistryHost[]> {
  const found = configDir === undefined ? undefined : await findConfig(configDir, domain);
  if (found === undefined) return [hostOf({ server: upstreamAddress(domain), ...PLAIN }, domain, '', true)];
  const { dir, content } = found;
  if (content === undefined) {
    return [hostOf({ server: upstreamAddress(domain), ...PLAIN, ...(await bareCertificates(dir)) }, domain, dir, true)];
  }
  const source = join(dir, 'hosts.toml');
  const file = parseHostsToml(content, source, (key) => {
    op.log.warn({ path: source, key }, 'unknown key in a mirror configuration');
  });
  const server = file.server ?? { server: upstreamAddress(domain), ...file.upstreamDefaults };
  const mirrors = file.mirrors.map((mirror) => hostOf(mirror, domain, dir, false));
  return withUpstream(mirrors, hostOf(server, domain, dir, true)).filter((host) => host.canPull || host.canResolve);
}

/** Files often name the server among its mirrors, to say how it is reached: it is the registry itself, and asked once. */
function withUpstream(mirrors: readonly RegistryHost[], upstream: RegistryHost): RegistryHost[] {
  const named = mirrors.find(({ base }) => base.href === upstream.base.href);
  if (named === undefined) return [...mirrors, upstream];
  const itself: RegistryHost = {
    ...named,
    isUpstream: true,
    canPull: named.canPull || upstream.canPull,
    canResolve: named.canResolve || upstream.canResolve,
  };
  return mirrors.map((mirror) => (mirror === named ? itself : mirror));
}

/** `host_5000_` is for file systems that take no colon. */
function candidateNames(domain: string): string[] {
  const colon = domain.lastIndexOf(':');
  const hasPort = colon > domain.lastIndexOf(']');
  const safe = hasPort ? [`${domain.slice(0, colon)}_${domain.slice(colon + 1)}_`] : [];
  return [...safe, domain, '_default'];
}

async function findConfig(configDir: string, domain: string): Promise<{ dir: string; content?: string } | undefined> {
  for (const name of candidateNames(domain)) {
    const dir = join(configDir, name);
    try {
      return { dir, content: await readNamedFile(join(dir, 'hosts.toml'), LARGEST_HOSTS_BYTES) };
    } catch (error) {
      const errno = errnoOf(error);
      if (errno !== 'ENOENT' && errno !== 'ENOTDIR') throw error;
    }
    const entries = await readdir(dir).catch(() => []);
    if (entries.length > 0) return { dir };
  }
  return undefined;
}

/** docker's older form of the folder: `*.crt` to trust, `*.cert` and `*.key` to show. */
async function bareCertificates(dir: string): Promise<Partial<HostEntry>> {
  const names = (await readdir(dir)).toSorted();
  return {
    ca: names.filter((name) => name.endsWith('.crt')),
    client: names
      .filter((name) => name.endsWith('.cert'))
      .map((cert) => ({ cert, key: cert.replace(/cert$/, 'key') }))
      .filter(({ key }) => names.includes(key)),
  };
}

function hostOf(entry: HostEntry, domain: string, dir: string, isUpstream: boolean): RegistryHost {
  const text = /^https?:\/\//i.test(entry.server) ? entry.server : `${defaultScheme(entry.server)}://${entry.server}`;
  const base = URL.parse(text);
  if (base === null) throw failedPrecondition(`registry ${domain}: ${JSON.stringify(entry.server)} is not an address`);
  const path = base.pathname.replace(/\/+$/, '');
  base.pathname = entry.overridePath || path.endsWith('/v2') ? path : `${path}/v2`;
  // Users and queries in the address would end up in messages.
  base.username = base.password = base.search = base.hash = '';
  const isRegistryItself = base.host === new URL(upstreamAddress(domain)).host;
  return {
    base,
    isUpstream,
    ...(isRegistryItself ? {} : { standsFor: domain }),
    canPull: entry.canPull,
    canResolve: entry.canResolve,
    headers: entry.headers,
    tls: {
      skipVerify: entry.skipVerify,
      ca: entry.ca.map((file) => resolve(dir, file)),
      client: entry.client.map(({ cert, key }) => ({
        cert: resolve(dir, cert),
        ...(key === undefined ? {} : { key: resolve(dir, key) }),
      })),
    },
  };
}

function upstreamAddress(domain: string): string {
  return domain === DEFAULT_DOMAIN ? 'https://registry-1.docker.io' : `${defaultScheme(domain)}://${domain}`;
}

/** Plain http is for this machine alone, unless a configuration asks for it. */
function defaultScheme(address: string): 'http' | 'https' {
  const url = URL.parse(`http://${address}`);
  if (url === null || url.port === '443') return 'https';
  return isLoopback(url.hostname) ? 'http' : 'https';
}

export function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname.endsWith('.localhost') || hostname === '[::1]' || /^127\./.test(hostname);
}
