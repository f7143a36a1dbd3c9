import type { GantryExtensions, ImageProgress, LogOptions, PodSubresources } from '../../gantry-extensions.ts';
import type { ImageImport } from '../../../lib/image-import.ts';
import { apiError, statusOf } from '../../status-error.ts';
import { isRecord } from '../../validate/check-shape.ts';
import { flagOf, methodNotAllowed, noSuchPath, numberOf, sendJson, sendStream, type Exchange } from './exchange.ts';
import { readBody } from './request-body.ts';

export interface GantryRoutesDeps {
  readonly pods?: PodSubresources;
  readonly extensions?: GantryExtensions;
}

/** GET …/pods/NAME/log, as Kubernetes has it. */
export async function serveLog(
  deps: GantryRoutesDeps,
  exchange: Exchange,
  namespace: string,
  name: string,
): Promise<void> {
  if (exchange.method !== 'GET') throw methodNotAllowed(exchange);
  const { query } = exchange;
  const options: LogOptions = {
    namespace,
    name,
    container: query.get('container') ?? undefined,
    follow: flagOf(query, 'follow'),
    previous: flagOf(query, 'previous'),
    timestamps: flagOf(query, 'timestamps'),
    tailLines: numberOf(query, 'tailLines'),
    sinceSeconds: numberOf(query, 'sinceSeconds', 1),
    sinceTime: query.get('sinceTime') ?? undefined,
    limitBytes: numberOf(query, 'limitBytes', 1),
  };
  await sendStream(exchange, 'text/plain; charset=utf-8', provided(deps.pods, 'logs').logs(exchange.op, options));
}

/**
 * What Gantry has beside Kubernetes, below /gantry/v1:
 *   GET namespaces/NS/pods/NAME/explain    POST stop
 *   GET namespaces/NS/explain?container=…    POST doctor
 *   GET, DELETE images    POST images/pull, images/import (JSON lines)
 */
export async function serveGantry(deps: GantryRoutesDeps, exchange: Exchange, path: readonly string[]): Promise<void> {
  const [first, namespace, pods, name, verb] = path;
  const isOfPod = first === 'namespaces' && pods === 'pods' && path.length === 5;
  if (isOfPod && verb === 'explain' && namespace !== undefined && name !== undefined) {
    await explain(deps, exchange, namespace, name);
  } else if (first === 'namespaces' && pods === 'explain' && namespace !== undefined && path.length === 3) {
    await explainContainer(deps, exchange, namespace);
  } else if (first === 'stop' && path.length === 1) await stop(deps, exchange);
  else if (first === 'doctor' && path.length === 1) await doctor(deps, exchange);
  else if (first === 'images') await images(deps, exchange, path.slice(1).join('/'));
  else throw noSuchPath(exchange);
}

async function explain(
  { extensions }: GantryRoutesDeps,
  exchange: Exchange,
  namespace: string,
  name: string,
): Promise<void> {
  if (exchange.method !== 'GET') throw methodNotAllowed(exchange);
  const uid = exchange.query.get('uid') ?? undefined;
  const request = { namespace, name, ...(uid === undefined ? {} : { uid }) };
  sendJson(exchange, 200, await provided(extensions, 'explain').explain(exchange.op, request));
}

async function explainContainer(
  { extensions }: GantryRoutesDeps,
  exchange: Exchange,
  namespace: string,
): Promise<void> {
  if (exchange.method !== 'GET') throw methodNotAllowed(exchange);
  const container = exchange.query.get('container') ?? '';
  if (container === '') throw apiError('BadRequest', 'container: Required value');
  const request = { namespace, container };
  sendJson(exchange, 200, await provided(extensions, 'explain').explainContainer(exchange.op, request));
}

async function doctor({ extensions }: GantryRoutesDeps, exchange: Exchange): Promise<void> {
  const { fix = false } = await posted(exchange);
  if (typeof fix !== 'boolean') throw apiError('BadRequest', 'fix: must be true or false');
  sendJson(exchange, 200, await provided(extensions, 'doctor').doctor(exchange.op, { fix }));
}

async function stop({ extensions }: GantryRoutesDeps, exchange: Exchange): Promise<void> {
  const body = await posted(exchange);
  const outcome = await provided(extensions, 'stop').stop(exchange.op, {
    namespace: text(body, 'namespace'),
    container: text(body, 'container'),
    timeoutSeconds: optionalNumber(body, 'timeoutSeconds'),
    signal: optionalText(body, 'signal'),
  });
  sendJson(exchange, 200, outcome);
}

async function images({ extensions }: GantryRoutesDeps, exchange: Exchange, verb: string): Promise<void> {
  const { op, method, query } = exchange;
  const handler = provided(extensions, 'images');
  if (verb === 'pull') {
    const body = await posted(exchange);
    const request = {
      reference: text(body, 'reference'),
      username: optionalText(body, 'username'),
      password: optionalText(body, 'password'),
    };
    await sendStream(exchange, JSON_LINES, progressLines(handler.pullImage(op, request)));
  } else if (verb === 'import') {
    await sendStream(
      exchange,
      JSON_LINES,
      progressLines(handler.importImage(op, importRequest(await posted(exchange)))),
    );
  } else if (verb === 'inspect') {
    if (method !== 'GET') throw methodNotAllowed(exchange);
    sendJson(exchange, 200, await handler.inspectImage(op, requiredReference(query)));
  } else if (verb !== '') throw noSuchPath(exchange);
  else if (method === 'GET') sendJson(exchange, 200, { items: await handler.listImages(op) });
  else if (method === 'DELETE') {
    const reference = requiredReference(query);
    const force = flagOf(query, 'force');
    sendJson(exchange, 200, { removed: await handler.removeImage(op, reference, { force }) });
  } else throw methodNotAllowed(exchange);
}

function requiredReference(query: URLSearchParams): string {
  const reference = query.get('reference') ?? '';
  if (reference === '') throw apiError('BadRequest', 'reference: Required value');
  return reference;
}

const JSON_LINES = 'application/x-ndjson';

/** A failure in the middle is the last line: by then the HTTP status has been said. */
async function* progressLines(progress: AsyncIterable<ImageProgress>): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    for await (const item of progress) yield Buffer.from(`${JSON.stringify(item)}\n`);
  } catch (error) {
    yield Buffer.from(`${JSON.stringify({ kind: 'error', status: statusOf(error) })}\n`);
  }
}

function importRequest(body: Record<string, unknown>): ImageImport {
  const source = text(body, 'source');
  if (source !== 'archive' && source !== 'layout' && source !== 'rootfs') {
    throw apiError('BadRequest', `source: Unsupported value: ${JSON.stringify(source)}`);
  }
  return {
    path: text(body, 'path'),
    source,
    name: optionalText(body, 'name'),
    entrypoint: optionalTexts(body, 'entrypoint'),
    cmd: optionalTexts(body, 'cmd'),
    env: optionalTexts(body, 'env'),
    workingDir: optionalText(body, 'workingDir'),
    user: optionalText(body, 'user'),
  };
}

function provided<T>(handler: T | undefined, what: string): T {
  if (handler !== undefined) return handler;
  throw apiError('NotImplemented', `${what}: not served by this API`);
}

async function posted(exchange: Exchange): Promise<Record<string, unknown>> {
  if (exchange.method !== 'POST') throw methodNotAllowed(exchange);
  const body = await readBody(exchange.request);
  if (!isRecord(body)) throw apiError('BadRequest', 'the body must be a JSON object');
  return body;
}

function text(body: Record<string, unknown>, field: string): string {
  const value = optionalText(body, field);
  if (value === undefined || value === '') throw apiError('BadRequest', `${field}: Required value`);
  return value;
}

function optionalText(body: Record<string, unknown>, field: string): string | undefined {
  const value = body[field] ?? undefined;
  if (value !== undefined && typeof value !== 'string') throw apiError('BadRequest', `${field}: must be a string`);
  return value;
}

function optionalNumber(body: Record<string, unknown>, field: string): number | undefined {
  const value = body[field] ?? undefined;
  if (value === undefined) return undefined;
  if (typeof value !== 'number' || !(value >= 0))
    throw apiError('BadRequest', `${field}: must be a number of at least 0`);
  return value;
}

function texts(body: Record<string, unknown>, field: string): string[] {
  const value = body[field];
  if (!Array.isArray(value) || !value.every((each) => typeof each === 'string')) {
    throw apiError('BadRequest', `${field}: must be a list of strings`);
  }
  return value;
}

function optionalTexts(body: Record<string, unknown>, field: string): string[] | undefined {
  return (body[field] ?? undefined) === undefined ? undefined : texts(body, field);
}
