import type { Clock } from '../../../lib/clock.ts';
import type { DeleteOptions, ListOptions, ObjectKey, Patch } from '../../client.ts';
import type { KubeObject, Resource, WatchEvent } from '../../objects.ts';
import { RESOURCES } from '../../resources.ts';
import { apiError, statusOf } from '../../status-error.ts';
import { isRecord, type UnknownFields } from '../../validate/check-shape.ts';
import type { ApiRegistry, WriteRequest, WriteResult } from '../registry.ts';
import { tableOf, wantedTable, type TableFormat } from '../tables.ts';
import { checkResourceVersion, watchObjects, type WatchRequest } from '../watch-objects.ts';
import { flagOf, methodNotAllowed, numberOf, sendJson, sendStream, type Exchange } from './exchange.ts';
import { contentTypeOf, readBody } from './request-body.ts';

/** What a path under /api/v1 names. */
export interface ObjectTarget {
  readonly resource: Resource;
  readonly namespace?: string;
  readonly name?: string;
  readonly subresource?: string;
}

export interface ObjectRoutesDeps {
  readonly registry: ApiRegistry;
  readonly clock: Clock;
}

/** The verbs on objects and collections, as Kubernetes' API conventions have them. */
export async function serveObjects(deps: ObjectRoutesDeps, exchange: Exchange, target: ObjectTarget): Promise<void> {
  if (target.name === undefined) await serveCollection(deps, exchange, target);
  else await serveObject(deps, exchange, target, { name: target.name, ...namespaceOf(target) });
}

async function serveCollection(deps: ObjectRoutesDeps, exchange: Exchange, target: ObjectTarget): Promise<void> {
  const { resource, namespace } = target;
  const options = listOptions(exchange, target);
  switch (exchange.method) {
    case 'GET':
    case 'HEAD':
      if (flagOf(exchange.query, 'watch')) await serveWatch(deps, exchange, resource, options);
      else {
        checkResourceVersion(exchange.query.get('resourceVersion') ?? '');
        const list = deps.registry.list(resource, options);
        const table = wantedTable(exchange.request.headers.accept);
        if (table === undefined) sendJson(exchange, 200, list);
        else sendJson(exchange, 200, render(deps, exchange, table, resource, list));
      }
      return;
    case 'POST': {
      if (namespace === undefined && RESOURCES[resource].namespaced) throw methodNotAllowed(exchange);
      const request = writeRequest(exchange);
      sendWritten(
        deps,
        exchange,
        resource,
        await deps.registry.create(resource, namespace, await readBody(exchange.request), request),
      );
      return;
    }
    case 'DELETE': {
      // As in Kubernetes: nobody means to delete the pods of all namespaces, or all namespaces.
      if ((namespace === undefined && RESOURCES[resource].namespaced) || resource === 'namespaces') {
        throw methodNotAllowed(exchange);
      }
      const deletion = await deleteOptions(exchange);
      sendJson(exchange, 200, await deps.registry.deleteCollection(resource, options, deletion));
      return;
    }
    default:
      throw methodNotAllowed(exchange);
  }
}

async function serveObject(
  deps: ObjectRoutesDeps,
  exchange: Exchange,
  target: ObjectTarget,
  key: ObjectKey,
): Promise<void> {
  const { registry } = deps;
  const { resource } = target;
  const ofStatus = target.subresource === 'status';
  switch (exchange.method) {
    case 'GET':
    case 'HEAD': {
      checkResourceVersion(exchange.query.get('resourceVersion') ?? '');
      const object = registry.get(resource, key);
      const table = wantedTable(exchange.request.headers.accept);
      if (table === undefined) sendJson(exchange, 200, object);
      else sendJson(exchange, 200, render(deps, exchange, table, resource, alone(object)));
      return;
    }
    case 'PUT': {
      const request = writeRequest(exchange);
      const body = await readBody(exchange.request);
      const result = ofStatus
        ? registry.replaceStatus(resource, key, body, request)
        : registry.replace(resource, key, body, request);
      sendWritten(deps, exchange, resource, await result);
      return;
    }
    case 'PATCH': {
      const request = writeRequest(exchange);
      const patch = await readPatch(exchange);
      const result = registry.patch(resource, key, patch, {
        ...request,
        ...(ofStatus ? { subresource: 'status' } : {}),
      });
      sendWritten(deps, exchange, resource, await result);
      return;
    }
    case 'DELETE':
      if (ofStatus) throw methodNotAllowed(exchange);
      sendJson(exchange, 200, await registry.delete(resource, key, await deleteOptions(exchange)));
      return;
    default:
      throw methodNotAllowed(exchange);
  }
}

function sendWritten(deps: ObjectRoutesDeps, exchange: Exchange, resource: Resource, result: WriteResult): void {
  const table = wantedTable(exchange.request.headers.accept);
  const { object } = result;
  const body = table === undefined ? object : render(deps, exchange, table, resource, alone(object));
  sendJson(exchange, result.created ? 201 : 200, body, result);
}

async function serveWatch(
  deps: ObjectRoutesDeps,
  exchange: Exchange,
  resource: Resource,
  options: ListOptions,
): Promise<void> {
  const { query } = exchange;
  const timeoutSeconds = numberOf(query, 'timeoutSeconds');
  const request: WatchRequest = {
    ...options,
    resourceVersion: query.get('resourceVersion') ?? '',
    bookmarks: flagOf(query, 'allowWatchBookmarks'),
    ...(query.has('sendInitialEvents') ? { sendInitialEvents: flagOf(query, 'sendInitialEvents') } : {}),
    ...(timeoutSeconds === undefined || timeoutSeconds === 0 ? {} : { timeoutMs: timeoutSeconds * 1000 }),
  };
  const events = watchObjects(deps.registry, deps.clock, resource, request, exchange.op.signal);
  const table = wantedTable(exchange.request.headers.accept);
  await sendStream(exchange, 'application/json', lines());

  async function* lines(): AsyncGenerator<Uint8Array, void, undefined> {
    // An empty chunk lets the headers go before the first event comes.
    yield new Uint8Array();
    let first = true;
    try {
      for await (const event of events) {
        yield Buffer.from(`${JSON.stringify(table === undefined ? event : tableEvent(event, table, first))}\n`);
        first = false;
      }
    } catch (error) {
      yield Buffer.from(`${JSON.stringify({ type: 'ERROR', object: statusOf(error) })}\n`);
    }
  }

  function tableEvent(event: WatchEvent<KubeObject>, format: TableFormat, first: boolean): unknown {
    if (event.type === 'BOOKMARK') return event;
    const { type, object } = event;
    const request = { format, wallMs: deps.clock.wallMs(), metadata: object.metadata, withColumns: first };
    return { type, object: tableOf(resource, [object], request) };
  }
}

function render(
  deps: ObjectRoutesDeps,
  exchange: Exchange,
  format: TableFormat,
  resource: Resource,
  { items, metadata }: Shown,
): unknown {
  const include = exchange.query.get('includeObject') ?? 'Metadata';
  const wallMs = deps.clock.wallMs();
  return tableOf(resource, items, { format: { ...format, include }, wallMs, metadata, withColumns: true });
}

/** What a table is made of: a list, or an object as a list of one. */
interface Shown {
  readonly items: readonly KubeObject[];
  readonly metadata: { readonly resourceVersion: string };
}

function alone(object: KubeObject): Shown {
  return { items: [object], metadata: object.metadata };
}

function namespaceOf({ namespace }: ObjectTarget): { namespace?: string } {
  return namespace === undefined ? {} : { namespace };
}

function listOptions({ query }: Exchange, target: ObjectTarget): ListOptions {
  return {
    ...namespaceOf(target),
    labelSelector: query.get('labelSelector') ?? '',
    fieldSelector: query.get('fieldSelector') ?? '',
  };
}

function dryRunOf(values: readonly unknown[]): boolean {
  for (const value of values) {
    if (value !== 'All')
      throw apiError('BadRequest', `invalid dryRun ${JSON.stringify(value)}: the one value is "All"`);
  }
  return values.length > 0;
}

const FIELD_VALIDATION: Readonly<Record<string, UnknownFields>> = { Strict: 'error', Warn: 'warn', Ignore: 'drop' };

function writeRequest({ query }: Exchange): WriteRequest {
  const validation = query.get('fieldValidation') ?? 'Strict';
  const unknownFields = FIELD_VALIDATION[validation === '' ? 'Strict' : validation];
  if (unknownFields === undefined)
    throw apiError('BadRequest', `invalid fieldValidation ${JSON.stringify(validation)}`);
  return { dryRun: dryRunOf(query.getAll('dryRun')), unknownFields };
}

/** DeleteOptions from the body and the query; what the query says counts where both speak. */
async function deleteOptions(exchange: Exchange): Promise<DeleteOptions> {
  const body = (await readBody(exchange.request)) ?? {};
  if (!isRecord(body)) throw apiError('BadRequest', 'the body of a DELETE must be DeleteOptions');
  const grace = numberOf(exchange.query, 'gracePeriodSeconds') ?? body['gracePeriodSeconds'] ?? undefined;
  if (grace !== undefined && typeof grace !== 'number')
    throw apiError('BadRequest', 'gracePeriodSeconds must be an integer');
  const inBody: unknown = body['dryRun'] ?? [];
  const dryRun = dryRunOf([
    ...exchange.query.getAll('dryRun'),
    ...(Array.isArray(inBody) ? (inBody as unknown[]) : [inBody]),
  ]);
  const preconditions = isRecord(body['preconditions']) ? body['preconditions'] : {};
  const { uid, resourceVersion } = preconditions;
  return {
    dryRun,
    ...(grace === undefined ? {} : { gracePeriodSeconds: grace }),
    preconditions: {
      ...(typeof uid === 'string' ? { uid } : {}),
      ...(typeof resourceVersion === 'string' ? { resourceVersion } : {}),
    },
  };
}

async function readPatch(exchange: Exchange): Promise<Patch> {
  const type = contentTypeOf(exchange.request);
  const body = await readBody(exchange.request);
  if (body === undefined) throw apiError('BadRequest', 'the patch is empty');
  switch (type) {
    case 'application/merge-patch+json':
      return { type: 'merge', body };
    case 'application/strategic-merge-patch+json':
      return { type: 'strategic', body };
    case 'application/json-patch+json':
      if (!Array.isArray(body)) throw apiError('BadRequest', 'a JSON patch is a list of operations');
      return { type: 'json', body };
    case 'application/apply-patch+yaml':
    case 'application/apply-patch+json': {
      const fieldManager = exchange.query.get('fieldManager') ?? '';
      if (fieldManager === '') throw apiError('BadRequest', 'fieldManager is required for apply patch');
      return { type: 'apply', body, fieldManager };
    }
    default:
      throw apiError(
        'UnsupportedMediaType',
        `${type} is not a kind of patch that this API knows: application/merge-patch+json, application/strategic-merge-patch+json, application/json-patch+json, application/apply-patch+yaml`,
      );
  }
}
