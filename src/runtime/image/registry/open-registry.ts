import type { Op } from '../../../lib/abort.ts';
import type { Clock } from '../../../lib/clock.ts';
import { credentialsFrom, isMeantFor, type AuthFields, type Credentials } from '../auth/credentials.ts';
import { credentialsFromFiles } from '../auth/credential-files.ts';
import type { ImageReference } from '../reference.ts';
import { RegistryClient } from './registry-client.ts';
import { registryHosts, type RegistryHost } from './registry-hosts.ts';
import { RegistrySource } from './registry-source.ts';
import { REGISTRY_RETRY, type RetryPolicy } from './retry.ts';

/** How this machine reaches registries. */
export interface RegistryAccess {
  /** Folder with `<host>/hosts.toml`; undefined asks every registry itself. */
  readonly configDir?: string;
  /** Files with credentials, the first match wins. See `credentialFilePaths`. */
  readonly credentialFiles: readonly string[];
  /** For proxies and trust: HTTPS_PROXY, NO_PROXY, SSL_CERT_FILE. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly retry?: RetryPolicy;
}

/** The hosts that serve a reference, ready to be asked. Dispose of it to close its connections. */
export async function openRegistry(
  op: Op,
  access: RegistryAccess,
  clock: Clock,
  ref: ImageReference,
  auth: AuthFields | undefined,
): Promise<RegistrySource> {
  const explicit = auth !== undefined && isMeantFor(auth, ref.domain) ? credentialsFrom(auth) : undefined;
  const retry = access.retry ?? REGISTRY_RETRY;
  const hosts = await registryHosts(op, access.configDir, ref.domain);
  const clients = hosts.map(
    (host) =>
      new RegistryClient({
        host,
        repository: ref.repository,
        clock,
        env: access.env,
        retry,
        credentials: (asking) => credentialsFor(asking, access, ref, host, explicit),
      }),
  );
  return new RegistrySource(clients, clock, retry);
}

/** What a caller gave is for the registry that it named, not for a mirror that a file puts before it. */
async function credentialsFor(
  op: Op,
  access: RegistryAccess,
  ref: ImageReference,
  host: RegistryHost,
  explicit: Credentials | undefined,
): Promise<Credentials | undefined> {
  if (host.isUpstream && explicit !== undefined) return explicit;
  const name = host.isUpstream ? ref.domain : host.base.host;
  return await credentialsFromFiles(op, access.credentialFiles, name, ref.repository);
}
