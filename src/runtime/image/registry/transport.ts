import type { Agent, ClientRequest, IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Op } from '../../../lib/abort.ts';
import type { Clock } from '../../../lib/clock.ts';
import { GantryError, canceled } from '../../../lib/errors.ts';
import { http } from '../../../lib/node-http.ts';
import { nodeTls } from '../../../lib/node-tls.ts';
import { printableUrl } from '../auth/credentials.ts';
import type { HostTls } from './registry-hosts.ts';
import { secureContextFor } from './trust.ts';
import { transportError } from './transport-errors.ts';

export interface HttpRequest {
  readonly method: 'GET' | 'POST';
  readonly url: URL;
  /** Sent to this URL's origin only: a redirect elsewhere gets none of them but Accept, Range and User-Agent. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

export interface HttpAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Where the answer came from, after redirects. */
  readonly url: URL;
  /** The body. Throws a retryable error when the connection breaks or stalls. Must be read or thrown away. */
  readonly body: AsyncIterable<Buffer>;
  discard(): void;
}

export interface TransportOptions {
  readonly clock: Clock;
  /** For proxies: HTTP_PROXY, HTTPS_PROXY, NO_PROXY. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly host: URL;
  readonly tls: HostTls;
}

/** A registry may have to fetch from elsewhere before its first byte, but not for longer than this. */
const ANSWER_TIMEOUT_MS = 60_000;
/** No byte for so long in the middle of a body: the connection is dead and a new one goes on from here. */
const STALL_TIMEOUT_MS = 60_000;
const SHORT_BODY_BYTES = 16 * 1024;
const MOST_REDIRECTS = 10;
const CROSS_ORIGIN_HEADERS = ['accept', 'range', 'user-agent'];
const REDIRECTS = new Set([301, 302, 303, 307, 308]);

/** Connections to one configured host and to wherever it redirects, with TLS as configured for that host alone. */
export class Transport implements Disposable {
  readonly #options: TransportOptions;
  readonly #agents = new Map<string, Promise<Agent>>();
  #closed = false;

  constructor(options: TransportOptions) {
    this.#options = options;
  }

  [Symbol.dispose](): void {
    this.#closed = true;
    for (const agent of this.#agents.values()) {
      agent.then(
        (made) => made.destroy(),
        () => undefined,
      );
    }
    this.#agents.clear();
  }

  /** The answer, whatever its status. Redirects of a GET are followed. */
  async send(op: Op, request: HttpRequest): Promise<HttpAnswer> {
    let { url, headers } = request;
    for (let hop = 0; ; hop++) {
      const answer = await this.#once(op, { ...request, url, headers });
      const location = answer.headers.location;
      if (request.method !== 'GET' || !REDIRECTS.has(answer.status) || location === undefined) return answer;
      answer.discard();
      const next = URL.parse(location, url);
      if (next === null || (next.protocol !== 'https:' && next.protocol !== 'http:')) {
        throw this.#failed(url, 'redirects to something that is not a web address');
      }
      if (hop >= MOST_REDIRECTS) throw this.#failed(url, 'redirects in circles');
      if (next.origin !== url.origin) {
        // The next host must not learn what was for this one.
        headers = Object.fromEntries(Object.entries(headers).filter(([name]) => CROSS_ORIGIN_HEADERS.includes(name)));
      }
      url = next;
    }
  }

  #failed(url: URL, why: string): GantryError {
    return new GantryError('Unavailable', `registry ${this.#options.host.host}: ${printableUrl(url)} ${why}`);
  }

  async #once(op: Op, request: HttpRequest): Promise<HttpAnswer> {
    const { url } = request;
    if (this.#closed) throw this.#failed(url, 'is not asked any more: the pull that it was for has ended');
    const agent = await this.#agent(url);
    if (op.signal.aborted) throw abortReason(op.signal);
    return await new Promise<HttpAnswer>((resolve, reject) => {
      const module = url.protocol === 'https:' ? nodeTls.https : http;
      let sent: ClientRequest;
      try {
        sent = module.request(url, {
          method: request.method,
          agent,
          headers: { ...request.headers, 'accept-encoding': 'identity', ...lengthOf(request.body) },
        });
      } catch (error) {
        reject(transportError(url.host, error));
        return;
      }
      const onAbort = (): void => {
        sent.destroy(abortReason(op.signal));
      };
      op.signal.addEventListener('abort', onAbort, { once: true });
      const timer = this.#options.clock.after(ANSWER_TIMEOUT_MS, () => {
        sent.destroy(Object.assign(new Error('no answer'), { code: 'ETIMEDOUT' }));
      });
      sent.on('close', () => {
        timer.cancel();
        op.signal.removeEventListener('abort', onAbort);
      });
      sent.on('error', (error) => {
        reject(op.signal.aborted ? abortReason(op.signal) : transportError(url.host, error));
      });
      sent.on('response', (response) => {
        timer.cancel();
        // An error after this point belongs to whoever reads the body.
        response.on('error', () => undefined);
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          url,
          body: this.#body(op, url, response),
          discard: () => {
            // A short body is read to its end, so that the connection can be used again.
            if (Number(response.headers['content-length'] ?? Infinity) <= SHORT_BODY_BYTES) response.resume();
            else response.destroy();
          },
        });
      });
      sent.end(request.body);
    });
  }

  async *#body(op: Op, url: URL, response: IncomingMessage): AsyncGenerator<Buffer> {
    const state = { stalled: false };
    const watch = (): { cancel(): void } =>
      this.#options.clock.after(STALL_TIMEOUT_MS, () => {
        state.stalled = true;
        response.destroy();
      });
    let timer = watch();
    try {
      for await (const chunk of response as AsyncIterable<Buffer>) {
        timer.cancel();
        yield chunk;
        // Armed again only now: a slow reader here is not a slow server.
        timer = watch();
      }
      if (!response.complete) throw Object.assign(new Error('aborted'), { code: 'ECONNRESET' });
    } catch (error) {
      if (op.signal.aborted) throw abortReason(op.signal);
      throw transportError(
        url.host,
        state.stalled ? Object.assign(new Error('stalled'), { code: 'ETIMEDOUT' }) : error,
      );
    } finally {
      timer.cancel();
      response.destroy();
    }
  }

  #agent(url: URL): Promise<Agent> {
    let agent = this.#agents.get(url.origin);
    if (agent === undefined) {
      agent = this.#makeAgent(url);
      agent.catch(() => undefined);
      this.#agents.set(url.origin, agent);
    }
    return agent;
  }

  async #makeAgent(url: URL): Promise<Agent> {
    const shared = { keepAlive: true, maxSockets: 16, proxyEnv: this.#options.env };
    if (url.protocol !== 'https:') return new http.Agent(shared);
    const tls = url.host === this.#options.host.host ? this.#options.tls : { skipVerify: false, ca: [], client: [] };
    return new nodeTls.https.Agent({
      ...shared,
      secureContext: await secureContextFor(tls, this.#options.env),
      rejectUnauthorized: !tls.skipVerify,
    });
  }
}

function lengthOf(body: string | undefined): Record<string, string> {
  return body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) };
}

function abortReason(signal: AbortSignal): Error {
  const reason: unknown = signal.reason;
  return reason instanceof Error ? reason : canceled('canceled');
}

/** A whole small body. Throws DataLoss beyond `maxBytes`. */
export async function readBody(answer: HttpAnswer, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of answer.body) {
    size += chunk.length;
    if (size > maxBytes) {
      throw new GantryError(
        'DataLoss',
        `registry ${answer.url.host}: the answer is longer than ${String(maxBytes)} bytes`,
      );
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
