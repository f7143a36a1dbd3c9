import type { Op } from '../../../lib/abort.ts';
import type { Clock } from '../../../lib/clock.ts';
import { GantryError } from '../../../lib/errors.ts';
import { Authorizer } from '../auth/authorizer.ts';
import { Redactor, type Credentials } from '../auth/credentials.ts';
import type { RegistryHost } from './registry-hosts.ts';
import { parseRetryAfterMs, withRetries, type RetryPolicy } from './retry.ts';
import { readBody, Transport, type HttpAnswer } from './transport.ts';

export interface RegistryClientDeps {
  readonly host: RegistryHost;
  readonly repository: string;
  readonly clock: Clock;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly retry: RetryPolicy;
  /** What to show the host when it asks. */
  readonly credentials: (op: Op) => Promise<Credentials | undefined>;
}

export interface GetRequest {
  /** Below the repository: `manifests/latest`, `blobs/sha256:…`. */
  readonly path: string;
  /** What it is, for messages: `manifest latest`. */
  readonly what: string;
  readonly accept?: string;
  /** The first byte wanted, to go on where a connection broke. */
  readonly fromByte?: number;
}

const LARGEST_ERROR_BYTES = 64 * 1024;
const LONGEST_SERVER_TEXT = 200;
const USER_AGENT = 'gantry';

/** One repository on one host: authentication, retries, and failures in words. One per pull. */
export class RegistryClient implements Disposable {
  readonly #deps: RegistryClientDeps;
  readonly #transport: Transport;
  readonly #authorizer: Authorizer;
  readonly #redactor = new Redactor();
  #authorization: string | undefined;

  constructor(deps: RegistryClientDeps) {
    this.#deps = deps;
    const { host, clock, env } = deps;
    this.#transport = new Transport({ clock, env, host: host.base, tls: host.tls });
    this.#authorizer = new Authorizer({
      send: (op, request) => this.#transport.send(op, request),
      host: host.base.host,
      secure: host.base.protocol === 'https:',
      redactor: this.#redactor,
      credentials: deps.credentials,
    });
  }

  [Symbol.dispose](): void {
    this.#transport[Symbol.dispose]();
  }

  /** Host and port, for messages. */
  get name(): string {
    return this.#deps.host.base.host;
  }

  get host(): RegistryHost {
    return this.#deps.host;
  }

  /** An answer with status 200 or 206; anything else is thrown as what it means. */
  async get(op: Op, request: GetRequest): Promise<HttpAnswer> {
    try {
      return await withRetries(op, this.#deps.clock, this.#deps.retry, () => this.#attempt(op, request));
    } catch (error) {
      // Whatever a server managed to get into an error: secrets come out.
      if (!(error instanceof GantryError)) throw error;
      throw new GantryError(error.kind, this.#redactor.clean(error.message), { details: error.details });
    }
  }

  async #attempt(op: Op, request: GetRequest): Promise<HttpAnswer> {
    let answer = await this.#send(op, request);
    if (answer.status === 401) {
      // No authorization yet, or a token that has run out in the middle of a long pull.
      answer.discard();
      const fresh = await this.#authorizer.authorize(
        op,
        answer.headers['www-authenticate'],
        `repository:${this.#deps.repository}:pull`,
      );
      if (fresh === undefined) throw await this.#failure(answer.status, request, '');
      this.#authorization = fresh;
      answer = await this.#send(op, request);
    }
    if (answer.status === 200 || answer.status === 206) return answer;
    const text = await readBody(answer, LARGEST_ERROR_BYTES).then(
      (body) => body.toString('utf8'),
      () => '',
    );
    throw await this.#failure(answer.status, request, text, answer.headers['retry-after']);
  }

  async #send(op: Op, { path, accept, fromByte = 0 }: GetRequest): Promise<HttpAnswer> {
    const { host, repository } = this.#deps;
    const url = new URL(`${host.base.href.replace(/\/$/, '')}/${repository}/${path}`);
    if (host.standsFor !== undefined) url.searchParams.set('ns', host.standsFor);
    return await this.#transport.send(op, {
      method: 'GET',
      url,
      headers: {
        'user-agent': USER_AGENT,
        ...host.headers,
        ...(accept === undefined ? {} : { accept }),
        ...(fromByte === 0 ? {} : { range: `bytes=${String(fromByte)}-` }),
        ...(this.#authorization === undefined ? {} : { authorization: this.#authorization }),
      },
    });
  }

  async #failure(status: number, { what }: GetRequest, body: string, retryAfter?: string): Promise<GantryError> {
    const where = `registry ${this.name}: ${this.#deps.repository}`;
    const said = serverMessage(body);
    const because = said === '' ? '' : `: ${said}`;
    const details = { status, host: this.name };
    switch (true) {
      case status === 401:
        return (await this.#authorizer.hasCredentials)
          ? new GantryError('Unauthenticated', `${where}: the credentials are refused (401)${because}`, {
              details: { ...details, reason: 'unauthorized' },
            })
          : new GantryError(
              'Unauthenticated',
              `${where}: needs credentials, and there are none for it (401)${because}`,
              {
                details: { ...details, reason: 'unauthorized' },
              },
            );
      case status === 403:
        return new GantryError('PermissionDenied', `${where}: access denied (403)${because}`, {
          details: { ...details, reason: 'denied' },
        });
      case status === 404:
        return new GantryError('NotFound', `${where}: ${what} is not there (404)${because}`, {
          details: { ...details, reason: 'unknown' },
        });
      case status === 416:
        return new GantryError('OutOfRange', `${where}: ${what}: the range is refused (416)`, { details });
      case status === 429:
        return new GantryError('ResourceExhausted', `${where}: too many requests (429)${because}`, {
          details: {
            ...details,
            reason: 'rate-limit',
            retryable: true,
            retryAfterMs: parseRetryAfterMs(retryAfter, this.#deps.clock.wallMs()),
          },
        });
      default:
        return new GantryError('Unavailable', `${where}: ${what}: the registry answered ${String(status)}${because}`, {
          details: {
            ...details,
            reason: 'status',
            retryable: status >= 500 || status === 408,
            retryAfterMs: parseRetryAfterMs(retryAfter, this.#deps.clock.wallMs()),
          },
        });
    }
  }
}

/** What a registry says about its refusal, cut short and without control characters: it goes to terminals and logs. */
export function serverMessage(body: string): string {
  let text = '';
  try {
    const { errors } = JSON.parse(body) as { errors?: unknown };
    if (Array.isArray(errors)) {
      text = errors
        .map((entry: unknown) => {
          if (typeof entry !== 'object' || entry === null) return '';
          const { code, message } = entry as { code?: unknown; message?: unknown };
          return [code, message].filter((part) => typeof part === 'string' && part !== '').join(' ');
        })
        .filter((part) => part !== '')
        .join('; ');
    }
  } catch {
    // Web pages of proxies say nothing to a person who reads one line.
  }
  return text
    .replace(/\p{Cc}+/gu, ' ')
    .slice(0, LONGEST_SERVER_TEXT)
    .trim();
}
