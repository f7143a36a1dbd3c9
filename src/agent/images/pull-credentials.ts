import type { Secret } from '../../kube/objects.ts';

/** A name and a password for one registry. */
export interface PullCredentials {
  readonly username: string;
  readonly password: string;
  readonly serverAddress: string;
}

const DOCKER_HUB = new Set(['docker.io', 'index.docker.io', 'registry-1.docker.io']);

/** The registry that an image reference names: what stands before the first slash if it looks like a host. */
export function registryOf(image: string): string {
  const [first = '', ...rest] = image.split('/');
  const isHost = rest.length > 0 && (first.includes('.') || first.includes(':') || first === 'localhost');
  return isHost ? first : 'docker.io';
}

/**
 * What imagePullSecrets (types kubernetes.io/dockerconfigjson and dockercfg) have for an image's registry, in their order.
 * What cannot be read is left out: another secret, or no credentials at all, may do.
 */
export function pullCredentials(secrets: readonly Secret[], image: string): PullCredentials[] {
  const registry = registryOf(image);
  return secrets.flatMap((secret) =>
    Object.entries(authsOf(secret))
      .filter(([server]) => matches(hostOf(server), registry))
      .flatMap(([server, entry]) => toCredentials(server, entry)),
  );
}

interface AuthEntry {
  readonly username?: unknown;
  readonly password?: unknown;
  readonly auth?: unknown;
}

function authsOf(secret: Secret): Record<string, AuthEntry> {
  const json = secret.data?.['.dockerconfigjson'];
  const legacy = secret.data?.['.dockercfg'];
  try {
    if (json !== undefined) {
      const { auths } = JSON.parse(Buffer.from(json, 'base64').toString('utf8')) as {
        auths?: Record<string, AuthEntry>;
      };
      return auths ?? {};
    }
    if (legacy !== undefined)
      return JSON.parse(Buffer.from(legacy, 'base64').toString('utf8')) as Record<string, AuthEntry>;
  } catch {
    // Not JSON.
  }
  return {};
}

function hostOf(server: string): string {
  return server.replace(/^https?:\/\//, '').split('/')[0] ?? '';
}

function matches(host: string, registry: string): boolean {
  if (DOCKER_HUB.has(host) && DOCKER_HUB.has(registry)) return true;
  if (!host.startsWith('*.')) return host === registry;
  const rest = registry.slice(registry.indexOf('.'));
  return registry.includes('.') && rest === host.slice(1);
}

function toCredentials(serverAddress: string, entry: AuthEntry): PullCredentials[] {
  if (typeof entry.username === 'string' && typeof entry.password === 'string') {
    return [{ username: entry.username, password: entry.password, serverAddress }];
  }
  if (typeof entry.auth !== 'string') return [];
  const text = Buffer.from(entry.auth, 'base64').toString('utf8');
  const colon = text.indexOf(':');
  return colon < 0 ? [] : [{ username: text.slice(0, colon), password: text.slice(colon + 1), serverAddress }];
}
