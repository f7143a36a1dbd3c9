import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { childSignal } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { canceled } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import { http } from '../../lib/node-http.ts';
import type { GantryExtensions, PodSubresources } from '../gantry-extensions.ts';
import { isResource, RESOURCES } from '../resources.ts';
import { apiError } from '../status-error.ts';
import { METRICS_GROUP } from '../pod-metrics.ts';
import type { PodStreamUrls } from '../streams/pod-streams.ts';
import { apiGroups, apiVersions, coreResources, openApiCore, openApiIndex, versionInfo } from './discovery.ts';
import { listenOn, parseListenAddress, type Listening } from './listen.ts';
import type { ApiRegistry } from './registry.ts';
import {
  methodNotAllowed,
  noSuchPath,
  sendError,
  sendJson,
  sendText,
  type Exchange,
  type Upgrade,
} from './routes/exchange.ts';
import { serveGantry, serveLog } from './routes/gantry-routes.ts';
import { metricsGroup, serveMetrics } from './routes/metrics-routes.ts';
import { serveObjects, type ObjectTarget } from './routes/object-routes.ts';
import { isStreamPath, isStreamSubresource, serveStream } from './routes/stream-routes.ts';

export interface ApiServerConfig {
  readonly registry: ApiRegistry;
  readonly clock: Clock;
  readonly log: Log;
  /** `unix:///run/gantry/api.sock`, `http://127.0.0.1:8080` */
  readonly listen: readonly string[];
  /** Gantry's own version, for /version. */
  readonly version: string;
  readonly pods?: PodSubresources;
  readonly streams?: PodStreamUrls;
  readonly extensions?: GantryExtensions;
  /** For /readyz: why not, or undefined when all is well. */
  readonly notReady?: () => string | undefined;
}

export interface ApiServer {
  /** Where it really listens. */
  readonly addresses: readonly string[];
  /** Takes no more requests, ends watches and streams, removes the sockets. */
  close(): Promise<void>;
}

/** Serves the Kubernetes REST paths and Gantry's own. */
export async function serveApi(config: ApiServerConfig): Promise<ApiServer> {
  const closing = new AbortController();
  const servers: Server[] = [];
  const listenings: Listening[] = [];
  const close = async (): Promise<void> => {
    closing.abort(canceled('the API is shutting down'));
    await Promise.all(listenings.map((each) => each.close()));
    await Promise.all(servers.map(closed));
  };
  try {
    for (const text of config.listen) {
      const address = parseListenAddress(text);
      const overTcp = address.kind === 'tcp';
      const shouldUpgradeCallback = (request: IncomingMessage): boolean => isStreamPath(request.url ?? '');
      const server = http.createServer({ shouldUpgradeCallback }, (request, response) => {
        void serve(config, closing.signal, overTcp, request, response);
      });
      server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
        void serve(config, closing.signal, overTcp, request, answerOn(socket, request), { socket, head });
      });
      // What is not HTTP at all is answered by the parser, and is no news to the log.
      server.on('clientError', (_error, socket) => {
        if (socket.writable) socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n');
        else socket.destroy();
      });
      servers.push(server);
      listenings.push(await listenOn(server, address));
    }
  } catch (error) {
    await close();
    throw error;
  }
  return { addresses: listenings.map(({ address }) => address), close };
}

/** The answer to a request whose connection Node has let go of. */
function answerOn(socket: Socket, request: IncomingMessage): ServerResponse {
  socket.on('error', () => undefined);
  socket.setNoDelay(true);
  const response = new http.ServerResponse(request);
  response.shouldKeepAlive = false;
  response.assignSocket(socket);
  response.once('finish', () => socket.destroySoon());
  return response;
}

async function closed(server: Server): Promise<void> {
  if (!server.listening) return;
  await new Promise<void>((resolve) => {
    server.close(() => resolve());
    server.closeIdleConnections();
    // Streams were told to end; whoever does not read must not keep the daemon.
    setImmediate(() => server.closeAllConnections());
  });
}

async function serve(
  config: ApiServerConfig,
  closing: AbortSignal,
  overTcp: boolean,
  request: IncomingMessage,
  response: ServerResponse,
  upgrade?: Upgrade,
): Promise<void> {
  using child = childSignal(closing);
  // The client went away, or the answer is complete.
  response.once('close', () => child.abort(canceled('the request is over')));
  response.on('error', () => undefined);
  let exchange: Exchange = {
    op: { signal: child.signal, log: config.log },
    method: request.method ?? 'GET',
    path: [],
    query: new URLSearchParams(),
    request,
    response,
    ...(upgrade === undefined ? {} : { upgrade }),
  };
  try {
    const url = parseUrl(request.url ?? '/');
    exchange = { ...exchange, ...url };
    if (overTcp) checkBrowser(request);
    await route(config, exchange);
  } catch (error) {
    // A body that nobody read would be taken for the next request.
    if (!request.complete) response.setHeader('connection', 'close');
    sendError(exchange, error);
  }
}

function parseUrl(text: string): { path: string[]; query: URLSearchParams } {
  const question = text.indexOf('?');
  const pathname = question < 0 ? text : text.slice(0, question);
  const query = new URLSearchParams(question < 0 ? '' : text.slice(question + 1));
  try {
    const path = pathname.split('/').filter((part) => part !== '');
    return { path: path.map(decodeURIComponent), query };
  } catch {
    throw apiError('BadRequest', 'the path of the URL is not properly encoded');
  }
}

/** A web page that the user happens to have open must not reach the API over loopback, neither directly nor by DNS rebinding. */
function checkBrowser(request: IncomingMessage): void {
  const host = (request.headers.host ?? '').replace(/:[0-9]+$/, '').replaceAll(/[[\]]/g, '');
  if (request.headers.origin !== undefined || !['127.0.0.1', '::1', 'localhost'].includes(host)) {
    throw apiError('Forbidden', 'requests of web pages and for other host names are not answered here');
  }
}

async function route(config: ApiServerConfig, exchange: Exchange): Promise<void> {
  const { path, method } = exchange;
  const [first = '', second, third] = path;
  if (first === 'api' && second === 'v1' && third !== undefined) {
    await routeObject(config, exchange, path.slice(2));
    return;
  }
  if (first === 'gantry' && second === 'v1' && third !== undefined) {
    await serveGantry(config, exchange, path.slice(2));
    return;
  }
  const { extensions } = config;
  if (first === 'apis' && second === METRICS_GROUP && extensions !== undefined) {
    await serveMetrics(extensions, exchange, path.slice(2));
    return;
  }
  const document = documentAt(config, path.join('/'));
  if (document === undefined) throw noSuchPath(exchange);
  if (method !== 'GET' && method !== 'HEAD') throw methodNotAllowed(exchange);
  if (typeof document === 'string') sendText(exchange, document);
  else sendJson(exchange, 200, document);
}

function documentAt({ version, notReady, extensions }: ApiServerConfig, path: string): unknown {
  switch (path) {
    case '':
      return {
        paths: ['/api', '/api/v1', '/apis', '/gantry/v1', '/healthz', '/livez', '/openapi/v3', '/readyz', '/version'],
      };
    case 'api':
      return apiVersions;
    case 'api/v1':
      return coreResources;
    case 'apis':
      return extensions === undefined ? apiGroups : { ...apiGroups, groups: [metricsGroup] };
    case 'openapi/v3':
      return openApiIndex;
    case 'openapi/v3/api/v1':
      return openApiCore;
    case 'version':
      return versionInfo(version);
    case 'healthz':
    case 'livez':
      return 'ok';
    case 'readyz': {
      const why = notReady?.();
      if (why !== undefined) throw apiError('ServiceUnavailable', why);
      return 'ok';
    }
    default:
      return undefined;
  }
}

async function routeObject(config: ApiServerConfig, exchange: Exchange, path: readonly string[]): Promise<void> {
  const target = targetOf(path);
  // An empty name must not turn the end of one object into the end of all: `…/pods/` is nothing.
  const [pathname = ''] = (exchange.request.url ?? '').split('?', 1);
  if (target === undefined || pathname.endsWith('/') || pathname.includes('//')) throw noSuchPath(exchange);
  const { resource, namespace, name, subresource } = target;
  if (subresource === undefined || (subresource === 'status' && RESOURCES[resource].hasStatus)) {
    await serveObjects(config, exchange, target);
  } else if (resource === 'pods' && subresource === 'log') {
    await serveLog(config, exchange, namespace ?? '', name ?? '');
  } else if (resource === 'pods' && isStreamSubresource(subresource)) {
    await serveStream(config, exchange, subresource, { namespace: namespace ?? '', name: name ?? '' });
  } else throw noSuchPath(exchange);
}

/** `pods`, `namespaces/NS/pods`, `namespaces/NS/pods/NAME`, `namespaces/NS/pods/NAME/status`, `nodes/NAME` … */
function targetOf(path: readonly string[]): ObjectTarget | undefined {
  const [first = '', namespace = '', third = ''] = path;
  const inNamespace = first === 'namespaces' && path.length >= 3 && isResource(third) && RESOURCES[third].namespaced;
  const [resource = '', name, subresource, ...rest] = inNamespace ? path.slice(2) : path;
  if (!isResource(resource) || rest.length > 0) return undefined;
  // An object in a namespace is named with its namespace.
  if (RESOURCES[resource].namespaced && !inNamespace && name !== undefined) return undefined;
  return {
    resource,
    ...(inNamespace ? { namespace } : {}),
    ...(name === undefined ? {} : { name }),
    ...(subresource === undefined ? {} : { subresource }),
  };
}
