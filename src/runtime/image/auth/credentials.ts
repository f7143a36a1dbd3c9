import { invalidArgument } from '../../../lib/errors.ts';

/** What proves to a registry who asks. Never logged: see {@link Redactor}. */
export type Credentials =
  | { readonly kind: 'basic'; readonly username: string; readonly password: string }
  /** A refresh token (docker's identity token): exchanged for access tokens at the registry's token server. */
  | { readonly kind: 'identity-token'; readonly token: string }
  /** An access token that is sent as it is. */
  | { readonly kind: 'registry-token'; readonly token: string };

/** Credentials as CRI's AuthConfig and docker's config.json write them. Empty text means "not given". */
export interface AuthFields {
  readonly username?: string;
  readonly password?: string;
  /** base64 of `username:password`. */
  readonly auth?: string;
  readonly identityToken?: string;
  readonly registryToken?: string;
  /** The registry that they are for; anyone when it is empty. */
  readonly serverAddress?: string;
}

/** Undefined where nothing is given. Throws InvalidArgument (without the secret) when `auth` cannot be read. */
export function credentialsFrom(fields: AuthFields): Credentials | undefined {
  const { username = '', password = '', auth = '', identityToken = '', registryToken = '' } = fields;
  if (identityToken !== '') return { kind: 'identity-token', token: identityToken };
  if (registryToken !== '') return { kind: 'registry-token', token: registryToken };
  if (username !== '' || password !== '') return basicOrToken(username, password);
  if (auth === '') return undefined;
  const decoded = Buffer.from(auth, 'base64').toString('utf8');
  const colon = decoded.indexOf(':');
  if (colon < 0) throw invalidArgument('registry credentials: auth is not base64 of username:password');
  // Some tools pad the decoded text with NULs.
  return basicOrToken(decoded.slice(0, colon), decoded.slice(colon + 1).replace(/\0+$/, ''));
}

/** Credential helpers write `<token>` as the user's name of an identity token. */
function basicOrToken(username: string, password: string): Credentials {
  if (username === '<token>') return { kind: 'identity-token', token: password };
  return { kind: 'basic', username, password };
}

/** `https://index.docker.io/v1/`, `registry.example:443` … as the host that a reference would name. */
export function hostOfServerAddress(address: string): string {
  const host = address.replace(/^https?:\/\//i, '').split('/')[0] ?? '';
  if (host === 'index.docker.io' || host === 'registry-1.docker.io') return 'docker.io';
  return host;
}

/** Whether credentials that name a server may be sent to that registry. */
export function isMeantFor(fields: AuthFields, domain: string): boolean {
  const address = fields.serverAddress ?? '';
  return address === '' || hostOfServerAddress(address) === hostOfServerAddress(domain);
}

export function basicHeader(username: string, password: string): string {
  return `Basic ${Buffer.from(`${username}:${password}`, 'utf8').toString('base64')}`;
}

const SHORTEST_SECRET = 4;

/** Takes known secrets out of text that others wrote, before it gets into a message. A server may echo what it was sent. */
export class Redactor {
  readonly #secrets = new Set<string>();

  add(...secrets: readonly string[]): void {
    for (const secret of secrets) {
      if (secret.length < SHORTEST_SECRET) continue;
      this.#secrets.add(secret);
      this.#secrets.add(encodeURIComponent(secret));
    }
  }

  addCredentials(credentials: Credentials): void {
    if (credentials.kind !== 'basic') this.add(credentials.token);
    else {
      const header = basicHeader(credentials.username, credentials.password);
      this.add(credentials.password, header.slice('Basic '.length));
    }
  }

  clean(text: string): string {
    let result = text;
    for (const secret of this.#secrets) result = result.replaceAll(secret, '<secret>');
    return result;
  }
}

/** A URL for messages: without user, password and query, where signed links carry their signature. */
export function printableUrl(url: URL): string {
  return `${url.protocol}//${url.host}${url.pathname}`;
}
