import { join } from 'node:path';
import type { Op } from '../../../lib/abort.ts';
import { errnoOf, messageOf } from '../../../lib/errors.ts';
import { readNamedFile } from '../../../linux/read-named-file.ts';
import { credentialsFrom, hostOfServerAddress, type Credentials } from './credentials.ts';
import { credentialsFromHelper } from './credential-helper.ts';

const LARGEST_FILE_BYTES = 1 << 20;

/** Where credentials are looked for, in this order: containers' auth.json files, then docker's config.json. */
export function credentialFilePaths(env: Readonly<Record<string, string | undefined>>, home: string): string[] {
  const explicit = env['REGISTRY_AUTH_FILE'];
  const runtimeDir = env['XDG_RUNTIME_DIR'];
  const paths = [
    explicit,
    runtimeDir === undefined ? undefined : join(runtimeDir, 'containers', 'auth.json'),
    '/run/containers/0/auth.json',
    join(env['XDG_CONFIG_HOME'] ?? join(home, '.config'), 'containers', 'auth.json'),
    join(env['DOCKER_CONFIG'] ?? join(home, '.docker'), 'config.json'),
  ];
  return paths.filter((path) => path !== undefined && path !== '') as string[];
}

interface CredentialFile {
  readonly auths?: unknown;
  readonly credHelpers?: unknown;
  readonly credsStore?: unknown;
}

/**
 * The first credentials that any of the files has for a repository. They are read anew each time, because `docker
 * login` changes them under a running daemon. An unreadable file or a failing helper is a warning: the pull goes on
 * without it, and the registry has the last word.
 */
export async function credentialsFromFiles(
  op: Op,
  paths: readonly string[],
  host: string,
  repository: string,
): Promise<Credentials | undefined> {
  for (const path of paths) {
    const file = await load(op, path);
    if (file === undefined) continue;
    try {
      const found = await lookUp(op, file, host, repository);
      if (found !== undefined) return found;
    } catch (error) {
      if (op.signal.aborted) throw error;
      op.log.warn({ path, host, error: messageOf(error) }, 'credentials cannot be used');
    }
  }
  return undefined;
}

async function load(op: Op, path: string): Promise<CredentialFile | undefined> {
  let text: string;
  try {
    text = await readNamedFile(path, LARGEST_FILE_BYTES);
  } catch (error) {
    const errno = errnoOf(error);
    if (errno !== 'ENOENT' && errno !== 'ENOTDIR') {
      op.log.warn({ path, error: messageOf(error) }, 'credential file cannot be read');
    }
    return undefined;
  }
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    // JSON.parse quotes the text in its message: that may be a secret.
    op.log.warn({ path }, 'credential file is not JSON');
    return undefined;
  }
}

async function lookUp(
  op: Op,
  file: CredentialFile,
  host: string,
  repository: string,
): Promise<Credentials | undefined> {
  const helper = matching(file.credHelpers, host, repository);
  if (typeof helper === 'string' && helper !== '') {
    return await credentialsFromHelper(op, helper, serverFor(host));
  }
  const entry = matching(file.auths, host, repository);
  if (typeof entry === 'object' && entry !== null) {
    const fields = entry as Record<string, unknown>;
    const found = credentialsFrom({
      username: text(fields['username']),
      password: text(fields['password']),
      auth: text(fields['auth']),
      identityToken: text(fields['identitytoken']),
      registryToken: text(fields['registrytoken']),
    });
    if (found !== undefined) return found;
  }
  if (typeof file.credsStore === 'string' && file.credsStore !== '') {
    return await credentialsFromHelper(op, file.credsStore, serverFor(host));
  }
  return undefined;
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** docker stores its own registry under the address of its first API. */
function serverFor(host: string): string {
  return host === 'docker.io' ? 'https://index.docker.io/v1/' : host;
}

/** The entry for a repository: containers' files may name one by its path, the longest match wins; docker's name hosts. */
function matching(entries: unknown, host: string, repository: string): unknown {
  if (typeof entries !== 'object' || entries === null) return undefined;
  const byKey = new Map<string, unknown>();
  for (const [key, value] of Object.entries(entries)) {
    if (/^https?:\/\//i.test(key) || /\/v[12]\/?$/.test(key)) byKey.set(hostOfServerAddress(key), value);
    else byKey.set(key.replace(/^(index|registry-1)\.docker\.io(?=\/|$)/, 'docker.io').replace(/\/$/, ''), value);
  }
  const parts = [host, ...repository.split('/')];
  for (let length = parts.length; length > 0; length--) {
    const value = byKey.get(parts.slice(0, length).join('/'));
    if (value !== undefined) return value;
  }
  return undefined;
}
