import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Blob, Image } from './images.ts';

export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly range?: string;
  readonly authorization?: string;
}

/** What goes wrong instead of the right answer. */
export type Fault =
  | { readonly kind: 'status'; readonly status: number; readonly retryAfterSeconds?: number }
  /** Half of the rest is sent, then the connection is cut. */
  | { readonly kind: 'truncate' }
  /** The right length, other bytes. */
  | { readonly kind: 'wrong-bytes' }
  /** Pieces with pauses between them. */
  | { readonly kind: 'slow'; readonly pieceBytes: number; readonly pauseMs: number }
  /** No answer, ever. */
  | { readonly kind: 'hang' }
  /** The connection is cut before a byte is sent. */
  | { readonly kind: 'reset' }
  | { readonly kind: 'redirect'; readonly location: string };

export interface Login {
  readonly scheme: 'basic' | 'token';
  readonly username: string;
  readonly password: string;
}

interface Planned {
  readonly path: string | RegExp;
  readonly fault: Fault;
  left: number;
}

/** What a test's token server hands out. */
const TOKEN = 'a-token-of-the-test-registry';

/**
 * An OCI distribution registry on loopback, in this process: what a test pushes is pulled from it, with or without a login,
 * and it fails where and as often as it is told.
 */
export class TestRegistry implements AsyncDisposable {
  /** Every request, in order. */
  readonly requests: SeenRequest[] = [];
  /** Required from now on when set. */
  login: Login | undefined;
  /** Without them a broken download can only be begun anew. */
  ranges = true;
  readonly #server: Server;
  readonly #blobs = new Map<string, Buffer>();
  readonly #manifests = new Map<string, Blob>();
  #planned: Planned[] = [];

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(): Promise<TestRegistry> {
    const server = createServer();
    const registry = new TestRegistry(server);
    server.on('request', (request, response) => {
      response.on('error', () => undefined);
      registry.#answer(request, response);
    });
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve);
    });
    return registry;
  }

  /** `127.0.0.1:PORT`: the first part of an image's name. Plain http: see `TempRoot.allowPlainHttp`. */
  get host(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Makes the image known by these tags and by its digest; returns the name with the first tag. */
  push(repository: string, image: Image, ...tags: readonly string[]): string {
    for (const { digest, data } of [image.config, ...image.layers.map(({ blob }) => blob)])
      this.#blobs.set(digest, data);
    return this.pushManifest(repository, image.manifest, ...tags);
  }

  /** For an index, and for manifests that are none. */
  pushManifest(repository: string, manifest: Blob, ...tags: readonly string[]): string {
    for (const target of [manifest.digest, ...tags]) this.#manifests.set(`${repository}/${target}`, manifest);
    const [tag] = tags;
    return `${this.host}/${repository}${tag === undefined ? `@${manifest.digest}` : `:${tag}`}`;
  }

  /** The next `times` requests whose path contains or matches `path` go wrong; all of them by default. */
  fail(path: string | RegExp, fault: Fault, times = Infinity): void {
    this.#planned.push({ path, fault, left: times });
  }

  /** All is well again. */
  heal(): void {
    this.#planned = [];
  }

  /** How many requests there were whose path contains or matches `path`. */
  count(path: string | RegExp): number {
    return this.requests.filter((request) => matches(request.path, path)).length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const path = new URL(request.url ?? '/', `http://${this.host}`).pathname;
    const { range, authorization } = request.headers;
    this.requests.push({
      method: request.method ?? '',
      path,
      ...(range === undefined ? {} : { range }),
      ...(authorization === undefined ? {} : { authorization }),
    });
    request.resume();
    const planned = this.#planned.find((candidate) => candidate.left > 0 && matches(path, candidate.path));
    if (planned !== undefined) planned.left--;
    const fault = planned?.fault;
    if (fault !== undefined && failAtOnce(fault, response)) return;
    if (path === '/token') this.#giveToken(authorization, response);
    else if (!this.#isAllowed(authorization)) this.#challenge(response);
    else if (path === '/v2/') response.end('{}');
    else this.#serve(path, range, request.method === 'HEAD', response, fault);
  }

  #isAllowed(authorization: string | undefined): boolean {
    if (this.login === undefined) return true;
    return authorization === (this.login.scheme === 'basic' ? basicOf(this.login) : `Bearer ${TOKEN}`);
  }

  #challenge(response: ServerResponse): void {
    const bearer = `Bearer realm="http://${this.host}/token",service="test",scope="repository:any:pull"`;
    response.setHeader('www-authenticate', this.login?.scheme === 'basic' ? 'Basic realm="test"' : bearer);
    refuse(response, 401, 'UNAUTHORIZED');
  }

  #giveToken(authorization: string | undefined, response: ServerResponse): void {
    if (this.login !== undefined && authorization !== basicOf(this.login)) refuse(response, 401, 'UNAUTHORIZED');
    else response.end(JSON.stringify({ token: TOKEN, expires_in: 300 }));
  }

  #serve(path: string, range: string | undefined, head: boolean, response: ServerResponse, fault?: Fault): void {
    const [, repository = '', kind, target = ''] = /^\/v2\/(.+)\/(manifests|blobs)\/([^/]+)$/.exec(path) ?? [];
    const manifest = kind === 'manifests' ? this.#manifests.get(`${repository}/${target}`) : undefined;
    const data = kind === 'blobs' ? this.#blobs.get(target) : manifest?.data;
    if (data === undefined) {
      refuse(response, 404, kind === 'blobs' ? 'BLOB_UNKNOWN' : 'MANIFEST_UNKNOWN');
      return;
    }
    response.setHeader('content-type', manifest?.mediaType ?? 'application/octet-stream');
    response.setHeader('docker-content-digest', manifest?.digest ?? target);
    const from = this.ranges ? Number(/^bytes=(\d+)-$/.exec(range ?? '')?.[1] ?? 0) : 0;
    if (from > 0 && from >= data.length) {
      refuse(response, 416, 'RANGE_INVALID');
      return;
    }
    if (this.ranges) response.setHeader('accept-ranges', 'bytes');
    if (from > 0) response.setHeader('content-range', `bytes ${from}-${data.length - 1}/${data.length}`);
    response.writeHead(from > 0 ? 206 : 200, { 'content-length': data.length - from });
    if (head) response.end();
    else void sendBody(response, data.subarray(from), fault);
  }
}

function matches(path: string, wanted: string | RegExp): boolean {
  return typeof wanted === 'string' ? path.includes(wanted) : wanted.test(path);
}

function basicOf({ username, password }: Login): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
}

function refuse(response: ServerResponse, status: number, code: string): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ errors: [{ code, message: code.toLowerCase().replace('_', ' ') }] }));
}

/** True when nothing of the right answer is to be sent. */
function failAtOnce(fault: Fault, response: ServerResponse): boolean {
  switch (fault.kind) {
    case 'status':
      if (fault.retryAfterSeconds !== undefined) response.setHeader('retry-after', fault.retryAfterSeconds);
      refuse(response, fault.status, 'DENIED');
      return true;
    case 'hang':
      return true;
    case 'reset':
      response.destroy();
      return true;
    case 'redirect':
      response.writeHead(307, { location: fault.location }).end();
      return true;
    case 'truncate':
    case 'wrong-bytes':
    case 'slow':
      return false;
  }
}

async function sendBody(response: ServerResponse, data: Buffer, fault: Fault | undefined): Promise<void> {
  if (fault?.kind === 'truncate') {
    response.write(data.subarray(0, Math.ceil(data.length / 2)), () => response.destroy());
  } else if (fault?.kind === 'slow') {
    for (let at = 0; at < data.length && !response.destroyed; at += fault.pieceBytes) {
      response.write(data.subarray(at, at + fault.pieceBytes));
      await new Promise((next) => setTimeout(next, fault.pauseMs));
    }
    response.end();
  } else {
    response.end(fault?.kind === 'wrong-bytes' ? data.map((byte) => byte ^ 1) : data);
  }
}
