import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Blob, Image } from './images.ts';
import { TEST_CERTIFICATE, TEST_KEY } from './test-certificate.ts';

export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

/** What goes wrong instead of the right answer. */
export type Fault =
  | { readonly kind: 'status'; readonly status: number; readonly retryAfterSeconds?: number }
  /** Half of what was asked for is sent, then the connection is cut. */
  | { readonly kind: 'truncate' }
  /** The right length, other bytes. */
  | { readonly kind: 'wrong-bytes' }
  /** The connection is cut before a byte is sent. */
  | { readonly kind: 'reset' };

/** For what no {@link Fault} describes. True: it has answered, or has seen to it that nobody does. */
export type Intercept = (request: SeenRequest, response: ServerResponse) => boolean;

export interface RegistryAuth {
  readonly scheme: 'basic' | 'bearer';
  /** `username:password` that is accepted: by the registry for basic, else by the token server, which is at `/token`. */
  readonly login?: string;
  readonly refreshToken?: string;
  /** What the token server hands out. */
  readonly token: string;
}

interface Planned {
  readonly path: string;
  readonly fault: Fault;
  left: number;
}

/** So that what was sent before a cut arrives before it. */
const BEFORE_CUT_MS = 20;

/**
 * An OCI distribution registry on loopback, in this process: what a test pushes is pulled from it, with or without a login,
 * and it fails where and as often as it is told.
 */
export class TestRegistry implements AsyncDisposable {
  /** Every request, in order. */
  readonly requests: SeenRequest[] = [];
  /** Required from now on when set. */
  auth: RegistryAuth | undefined;
  intercept: Intercept | undefined;
  /** Without them a broken download can only be begun anew. */
  ranges = true;
  readonly #server: Server;
  readonly #blobs = new Map<string, Buffer>();
  readonly #manifests = new Map<string, Blob>();
  readonly #planned: Planned[] = [];

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(options: { readonly tls?: boolean } = {}): Promise<TestRegistry> {
    const server = options.tls === true ? createTlsServer({ cert: TEST_CERTIFICATE, key: TEST_KEY }) : createServer();
    const registry = new TestRegistry(server);
    server.on('request', (request, response) => {
      response.on('error', () => undefined);
      void registry.#answer(request, response);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return registry;
  }

  /** `127.0.0.1:PORT`: the first part of an image's name. Plain http: see `TempRoot.allowPlainHttp`. */
  get host(): string {
    return `127.0.0.1:${String((this.#server.address() as AddressInfo).port)}`;
  }

  /** Makes the image known by these tags and by its digest. */
  push(repository: string, image: Image, ...tags: readonly string[]): void {
    this.pushManifest(repository, image.manifest, ...tags);
    for (const blob of [image.config, ...image.layers]) this.pushBlob(blob);
  }

  /** For an index, and for manifests that are none. */
  pushManifest(repository: string, manifest: Blob, ...tags: readonly string[]): void {
    for (const target of [manifest.digest, ...tags]) this.#manifests.set(`${repository}/${target}`, manifest);
  }

  /** Under the digest given, true or not. */
  pushBlob({ digest, data }: Pick<Blob, 'digest' | 'data'>): void {
    this.#blobs.set(digest, data);
  }

  /** The next `times` requests whose path contains `path` go wrong; all of them by default. */
  fail(path: string, fault: Fault, times = Infinity): void {
    this.#planned.push({ path, fault, left: times });
  }

  /** How many requests there were whose path contains `path`. */
  count(path: string): number {
    return this.requests.filter((request) => request.path.includes(path)).length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #answer(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const request = await readRequest(incoming);
    this.requests.push(request);
    if (this.intercept?.(request, response) === true) return;
    const planned = this.#planned.find(({ path, left }) => left > 0 && request.path.includes(path));
    if (planned !== undefined) planned.left--;
    const fault = planned?.fault;
    if (fault?.kind === 'reset') response.destroy();
    else if (fault?.kind === 'status') {
      if (fault.retryAfterSeconds !== undefined) response.setHeader('retry-after', fault.retryAfterSeconds);
      refuse(response, fault.status, 'DENIED');
    } else if (request.path === '/token') this.#giveToken(request, response);
    else if (this.#isAllowed(request)) this.#serve(request, response, fault);
    else this.#challenge(response);
  }

  #isAllowed({ headers }: SeenRequest): boolean {
    if (this.auth === undefined) return true;
    const { scheme, token, login = '' } = this.auth;
    return headers.authorization === (scheme === 'basic' ? basicOf(login) : `Bearer ${token}`);
  }

  #challenge(response: ServerResponse): void {
    const bearer = `Bearer realm="http://${this.host}/token",service="test",scope="repository:any:pull"`;
    response.setHeader('www-authenticate', this.auth?.scheme === 'basic' ? 'Basic realm="test"' : bearer);
    refuse(response, 401, 'UNAUTHORIZED');
  }

  #giveToken({ method, headers, body }: SeenRequest, response: ServerResponse): void {
    const { login, refreshToken, token } = this.auth ?? { token: '' };
    const isLogin = login === undefined || headers.authorization === basicOf(login);
    const isRefresh = new URLSearchParams(body).get('refresh_token') === refreshToken;
    if (method === 'POST' ? isRefresh : isLogin) response.end(JSON.stringify({ token }));
    else refuse(response, 401, 'UNAUTHORIZED');
  }

  #serve({ path, headers }: SeenRequest, response: ServerResponse, fault: Fault | undefined): void {
    const [, repository = '', kind, target = ''] = /^\/v2\/(.+)\/(manifests|blobs)\/([^/]+)$/.exec(path) ?? [];
    const manifest = kind === 'manifests' ? this.#manifests.get(`${repository}/${target}`) : undefined;
    const data = kind === 'blobs' ? this.#blobs.get(target) : manifest?.data;
    if (data === undefined) {
      refuse(response, 404, kind === 'blobs' ? 'BLOB_UNKNOWN' : 'MANIFEST_UNKNOWN');
      return;
    }
    if (manifest !== undefined) {
      response.setHeader('content-type', manifest.mediaType);
      response.setHeader('docker-content-digest', manifest.digest);
    }
    const from = this.ranges ? Number(/^bytes=(\d+)-$/.exec(headers.range ?? '')?.[1] ?? 0) : 0;
    if (from > 0 && from >= data.length) {
      refuse(response, 416, 'RANGE_INVALID');
      return;
    }
    const size = String(data.length);
    if (from > 0) response.setHeader('content-range', `bytes ${String(from)}-${String(data.length - 1)}/${size}`);
    response.writeHead(from > 0 ? 206 : 200, { 'content-length': data.length - from });
    sendBody(response, data.subarray(from), fault);
  }
}

async function readRequest(incoming: IncomingMessage): Promise<SeenRequest> {
  const url = new URL(incoming.url ?? '/', 'http://registry');
  let body = '';
  for await (const chunk of incoming) body += String(chunk);
  const { method = '', headers } = incoming;
  return { method, path: url.pathname, query: url.searchParams, headers, body };
}

function basicOf(login: string): string {
  return `Basic ${Buffer.from(login).toString('base64')}`;
}

function refuse(response: ServerResponse, status: number, code: string): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ errors: [{ code, message: code.toLowerCase().replace('_', ' ') }] }));
}

function sendBody(response: ServerResponse, data: Buffer, fault: Fault | undefined): void {
  if (fault?.kind === 'truncate') {
    const cut = (): void => void setTimeout(() => response.destroy(), BEFORE_CUT_MS);
    response.write(data.subarray(0, Math.ceil(data.length / 2)), cut);
  } else {
    response.end(fault?.kind === 'wrong-bytes' ? data.map((byte) => byte ^ 1) : data);
  }
}
