import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { TEST_CERTIFICATE, TEST_KEY } from './test-certificate.ts';
import type { TestBlob, TestImage } from './test-image.ts';

export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

/** What a test makes the registry do instead of answering. True: it has done so. */
export type Fault = (request: SeenRequest, response: ServerResponse) => boolean;

export interface RegistryAuth {
  /** `username:password` that is accepted, for basic auth and at the token server. */
  readonly login?: string;
  readonly refreshToken?: string;
  readonly token: string;
  readonly scheme: 'basic' | 'bearer';
  /** The token server; the registry itself at `/token` if it is not given. */
  readonly realm?: string;
}

/** A registry on loopback that serves what it is given and misbehaves as it is told. */
export class LoopbackRegistry implements AsyncDisposable {
  readonly requests: SeenRequest[] = [];
  readonly #server: Server;
  readonly #blobs = new Map<string, Buffer>();
  readonly #manifests = new Map<string, TestBlob>();
  auth: RegistryAuth | undefined;
  fault: Fault = () => false;
  ranges = true;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(options: { readonly tls?: boolean } = {}): Promise<LoopbackRegistry> {
    const server = options.tls === true ? createTlsServer({ cert: TEST_CERTIFICATE, key: TEST_KEY }) : createServer();
    const registry = new LoopbackRegistry(server);
    server.on('request', (request, response) => {
      void registry.#handle(request, response);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return registry;
  }

  get host(): string {
    return `127.0.0.1:${String((this.#server.address() as AddressInfo).port)}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  addBlob(blob: Pick<TestBlob, 'digest' | 'data'>): void {
    this.#blobs.set(blob.digest, blob.data);
  }

  addManifest(repository: string, blob: TestBlob, ...tags: readonly string[]): void {
    for (const target of [blob.digest, ...tags]) this.#manifests.set(`${repository}/${target}`, blob);
  }

  addImage(repository: string, image: TestImage, ...tags: readonly string[]): void {
    this.addManifest(repository, image.manifest, ...tags);
    this.addBlob(image.config);
    for (const layer of image.layers) this.addBlob(layer);
  }

  /** How often a path that contains `part` was asked for. */
  count(part: string): number {
    return this.requests.filter((request) => request.path.includes(part)).length;
  }

  async #handle(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(incoming.url ?? '/', `http://${this.host}`);
    let body = '';
    for await (const chunk of incoming) body += String(chunk);
    const request: SeenRequest = {
      method: incoming.method ?? '',
      path: url.pathname,
      query: url.searchParams,
      headers: incoming.headers,
      body,
    };
    this.requests.push(request);
    response.on('error', () => undefined);
    if (this.fault(request, response)) return;
    if (url.pathname === '/token') this.#token(request, response);
    else if (this.#isAllowed(request)) this.#serve(request, response);
    else {
      const realm = this.auth?.realm ?? `http://${this.host}/token`;
      response.writeHead(401, {
        'www-authenticate':
          this.auth?.scheme === 'basic'
            ? 'Basic realm="test"'
            : `Bearer realm="${realm}",service="test",scope="repository:app:pull"`,
      });
      response.end(JSON.stringify({ errors: [{ code: 'UNAUTHORIZED', message: 'authentication required' }] }));
    }
  }

  #isAllowed({ headers }: SeenRequest): boolean {
    if (this.auth === undefined) return true;
    const { scheme, token, login = '' } = this.auth;
    const expected = scheme === 'basic' ? `Basic ${Buffer.from(login).toString('base64')}` : `Bearer ${token}`;
    return headers.authorization === expected;
  }

  #token({ method, headers, body }: SeenRequest, response: ServerResponse): void {
    const { login, refreshToken, token } = this.auth ?? { token: '' };
    const isLogin = login === undefined || headers.authorization === `Basic ${Buffer.from(login).toString('base64')}`;
    const isRefresh = method === 'POST' && new URLSearchParams(body).get('refresh_token') === refreshToken;
    if (method === 'POST' ? isRefresh : isLogin) response.end(JSON.stringify({ token }));
    else response.writeHead(401).end('{}');
  }

  #serve(request: SeenRequest, response: ServerResponse): void {
    const match = /^\/v2\/(.+)\/(manifests|blobs)\/([^/]+)$/.exec(request.path);
    const [, repository = '', kind = '', target = ''] = match ?? [];
    const manifest = this.#manifests.get(`${repository}/${target}`);
    const data = kind === 'manifests' ? manifest?.data : this.#blobs.get(target);
    if (data === undefined) {
      const code = kind === 'manifests' ? 'MANIFEST_UNKNOWN' : 'BLOB_UNKNOWN';
      response.writeHead(404).end(JSON.stringify({ errors: [{ code, message: 'unknown' }] }));
      return;
    }
    if (manifest !== undefined && kind === 'manifests') {
      response.setHeader('content-type', manifest.mediaType);
      response.setHeader('docker-content-digest', manifest.digest);
    }
    sendBlob(request, response, data, this.ranges);
  }
}

export function sendBlob({ headers }: SeenRequest, response: ServerResponse, data: Buffer, ranges = true): void {
  const from = ranges ? Number(/^bytes=([0-9]+)-$/.exec(headers.range ?? '')?.[1] ?? 0) : 0;
  if (from >= data.length && from > 0) {
    response.writeHead(416).end();
    return;
  }
  const rest = data.subarray(from);
  response.writeHead(from > 0 ? 206 : 200, {
    'content-length': rest.length,
    ...(from > 0 ? { 'content-range': `bytes ${String(from)}-${String(data.length - 1)}/${String(data.length)}` } : {}),
  });
  response.end(rest);
}
