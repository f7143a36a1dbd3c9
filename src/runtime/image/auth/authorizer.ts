import type { Op } from '../../../lib/abort.ts';
import { GantryError } from '../../../lib/errors.ts';
import { readBody, type HttpAnswer, type HttpRequest } from '../registry/transport.ts';
import { isLoopback } from '../registry/registry-hosts.ts';
import { parseChallenges, type Challenge } from './challenge.ts';
import { basicHeader, printableUrl, type Credentials, type Redactor } from './credentials.ts';

export interface AuthorizerDeps {
  readonly send: (op: Op, request: HttpRequest) => Promise<HttpAnswer>;
  /** The registry host that the credentials are for, for messages. */
  readonly host: string;
  /** Whether the registry itself is reached over TLS: then its tokens are not fetched without it. */
  readonly secure: boolean;
  readonly redactor: Redactor;
  /** Asked once, when the registry first wants to know who we are. */
  readonly credentials: (op: Op) => Promise<Credentials | undefined>;
}

const CLIENT_ID = 'gantry';
const LARGEST_TOKEN_BYTES = 1024 * 1024;

/**
 * Turns a registry's 401 into an Authorization header: basic, or a token from the token server that the registry
 * names. Anonymous tokens are asked for too, because public registries want one.
 */
export class Authorizer {
  readonly #deps: AuthorizerDeps;
  #credentials: Promise<Credentials | undefined> | undefined;

  constructor(deps: AuthorizerDeps) {
    this.#deps = deps;
  }

  /** Undefined when nothing that the registry offers can be answered with what we have. */
  async authorize(op: Op, header: string | undefined, defaultScope: string): Promise<string | undefined> {
    this.#credentials ??= this.#deps.credentials(op);
    const credentials = await this.#credentials;
    if (credentials !== undefined) this.#deps.redactor.addCredentials(credentials);
    if (credentials?.kind === 'registry-token') return `Bearer ${credentials.token}`;
    const challenges = parseChallenges(header ?? '');
    const bearer = challenges.find(
      ({ scheme, parameters }) => scheme === 'bearer' && parameters['realm'] !== undefined,
    );
    if (bearer !== undefined) return `Bearer ${await this.#token(op, bearer, credentials, defaultScope)}`;
    if (credentials?.kind === 'basic' && challenges.some(({ scheme }) => scheme === 'basic')) {
      return basicHeader(credentials.username, credentials.password);
    }
    return undefined;
  }

  get hasCredentials(): Promise<boolean> {
    return this.#credentials?.then((found) => found !== undefined) ?? Promise.resolve(false);
  }

  async #token(
    op: Op,
    challenge: Challenge,
    credentials: Credentials | undefined,
    defaultScope: string,
  ): Promise<string> {
    const { host, secure, send, redactor } = this.#deps;
    const realm = URL.parse(challenge.parameters['realm'] ?? '');
    if (realm === null || (realm.protocol !== 'https:' && realm.protocol !== 'http:')) {
      throw this.#refused('Unavailable', 'names a token server that is not a web address');
    }
    if (credentials !== undefined && secure && realm.protocol !== 'https:' && !isLoopback(realm.hostname)) {
      throw this.#refused(
        'FailedPrecondition',
        `wants the credentials sent without TLS to ${printableUrl(realm)}: refused`,
      );
    }
    const service = challenge.parameters['service'];
    const scope = challenge.parameters['scope'] ?? defaultScope;
    const request =
      credentials?.kind === 'identity-token'
        ? refreshRequest(realm, service, scope, credentials.token)
        : tokenRequest(realm, service, scope, credentials);
    const answer = await send(op, request);
    const text = (await readBody(answer, LARGEST_TOKEN_BYTES)).toString('utf8');
    if (answer.status !== 200) {
      const where = printableUrl(realm);
      if (answer.status === 401 || answer.status === 403) {
        throw this.#refused(
          answer.status === 401 ? 'Unauthenticated' : 'PermissionDenied',
          credentials === undefined
            ? `gives nobody a token without credentials (${where} answered ${String(answer.status)})`
            : `refuses the credentials (${where} answered ${String(answer.status)})`,
        );
      }
      throw new GantryError(
        'Unavailable',
        `registry ${host}: its token server ${where} answered ${String(answer.status)}`,
        {
          details: { reason: 'token', retryable: answer.status >= 500 || answer.status === 429 },
        },
      );
    }
    const token = tokenOf(text);
    if (token === undefined)
      throw this.#refused('Unavailable', `its token server ${printableUrl(realm)} sent no token`);
    redactor.add(token);
    return token;
  }

  #refused(
    kind: 'Unavailable' | 'Unauthenticated' | 'PermissionDenied' | 'FailedPrecondition',
    why: string,
  ): GantryError {
    return new GantryError(kind, `registry ${this.#deps.host}: ${why}`, {
      details: { reason: 'auth', host: this.#deps.host },
    });
  }
}

function tokenRequest(
  realm: URL,
  service: string | undefined,
  scope: string,
  credentials: Credentials | undefined,
): HttpRequest {
  const url = new URL(realm);
  if (service !== undefined) url.searchParams.set('service', service);
  // One parameter each: a challenge may ask for several at once, separated by blanks.
  for (const one of scope.split(' ')) if (one !== '') url.searchParams.append('scope', one);
  if (credentials?.kind !== 'basic') return { method: 'GET', url, headers: {} };
  url.searchParams.set('account', credentials.username);
  return { method: 'GET', url, headers: { authorization: basicHeader(credentials.username, credentials.password) } };
}

/** The OAuth2 form: the refresh token goes into the body and never into a URL, which servers log. */
function refreshRequest(realm: URL, service: string | undefined, scope: string, token: string): HttpRequest {
  const form = new URLSearchParams({ grant_type: 'refresh_token', client_id: CLIENT_ID, refresh_token: token, scope });
  if (service !== undefined) form.set('service', service);
  return {
    method: 'POST',
    url: realm,
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: form.toString(),
  };
}

function tokenOf(text: string): string | undefined {
  try {
    const answer = JSON.parse(text) as { token?: unknown; access_token?: unknown } | null;
    const token = [answer?.token, answer?.access_token].find((value) => typeof value === 'string' && value !== '');
    // Anything else would smuggle a line into the request.
    return typeof token === 'string' && /^[\x21-\x7e]+$/.test(token) ? token : undefined;
  } catch {
    return undefined;
  }
}
