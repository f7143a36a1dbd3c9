import type { Op } from '../../lib/abort.ts';
import { invalidArgument } from '../../lib/errors.ts';
import type { KubeClient, ListOptions, ObjectKey, Patch, WatchOptions, WriteOptions } from '../client.ts';
import type { New, ObjectList, Resource, ResourceTypes, Status, WatchEvent } from '../objects.ts';
import { RESOURCES } from '../resources.ts';
import { errorOfStatus } from '../status-error.ts';
import type { HttpConnection, HttpRequest } from './http-connection.ts';
import { jsonLines } from './json-lines.ts';

const PATCH_TYPES: Readonly<Record<Patch['type'], string>> = {
  merge: 'application/merge-patch+json',
  json: 'application/json-patch+json',
  strategic: 'application/strategic-merge-patch+json',
  // JSON is YAML.
  apply: 'application/apply-patch+yaml',
};

/** A KubeClient over Kubernetes' REST paths. */
export function httpKubeClient(connection: HttpConnection): KubeClient {
  const write = async <R extends Resource>(
    op: Op,
    request: HttpRequest,
    options: WriteOptions = {},
  ): Promise<ResourceTypes[R]> => {
    const query = {
      ...request.query,
      ...(options.dryRun === true ? { dryRun: 'All' } : {}),
      fieldValidation: 'Strict',
    };
    const { body, warnings, created, unchanged } = await connection.ask<ResourceTypes[R]>(op, { ...request, query });
    for (const warning of warnings) options.onWarning?.(warning);
    if (created) options.onCreated?.();
    if (unchanged) options.onUnchanged?.();
    return body;
  };
  return {
    get: async <R extends Resource>(op: Op, resource: R, key: ObjectKey) => {
      const { body } = await connection.ask<ResourceTypes[R]>(op, { method: 'GET', path: objectPath(resource, key) });
      return body;
    },
    list: async <R extends Resource>(op: Op, resource: R, options: ListOptions = {}) => {
      const { body } = await connection.ask<ObjectList<ResourceTypes[R]>>(op, {
        method: 'GET',
        path: collectionPath(resource, options.namespace),
        query: { labelSelector: options.labelSelector, fieldSelector: options.fieldSelector },
      });
      return body;
    },
    create: async (op, resource, object, options) => {
      const { namespace } = keyOf(resource, object);
      return await write(op, { method: 'POST', path: collectionPath(resource, namespace), body: object }, options);
    },
    replace: async (op, resource, object, options) => {
      const path = objectPath(resource, keyOf(resource, object));
      return await write(op, { method: 'PUT', path, body: object }, options);
    },
    replaceStatus: async (op, resource, object, options) => {
      const path = [...objectPath(resource, keyOf(resource, object)), 'status'];
      return await write(op, { method: 'PUT', path, body: object }, options);
    },
    patch: async (op, resource, key, patch, options) => {
      const path = objectPath(resource, key);
      const request: HttpRequest = {
        method: 'PATCH',
        path: options?.subresource === 'status' ? [...path, 'status'] : path,
        contentType: PATCH_TYPES[patch.type],
        body: patch.body,
        query: patch.type === 'apply' ? { fieldManager: patch.fieldManager } : {},
      };
      return await write(op, request, options);
    },
    delete: async (op, resource, key, options = {}) => {
      const { gracePeriodSeconds, preconditions } = options;
      const body = { kind: 'DeleteOptions', apiVersion: 'v1', gracePeriodSeconds, preconditions };
      return await write(op, { method: 'DELETE', path: objectPath(resource, key), body }, options);
    },
    watch: <R extends Resource>(op: Op, resource: R, options: WatchOptions = {}) =>
      watch<R>(connection, op, resource, options),
  };
}

async function* watch<R extends Resource>(
  connection: HttpConnection,
  op: Op,
  resource: R,
  options: WatchOptions,
): AsyncGenerator<WatchEvent<ResourceTypes[R]>, void, undefined> {
  const chunks = connection.stream(op, {
    method: 'GET',
    path: collectionPath(resource, options.namespace),
    query: {
      watch: 1,
      labelSelector: options.labelSelector,
      fieldSelector: options.fieldSelector,
      resourceVersion: options.resourceVersion,
      allowWatchBookmarks: options.bookmarks,
      timeoutSeconds: options.timeoutMs === undefined ? undefined : Math.max(1, Math.ceil(options.timeoutMs / 1000)),
    },
  });
  try {
    for await (const line of jsonLines(chunks)) {
      const event = line as WatchEvent<ResourceTypes[R]> | { type: 'ERROR'; object: Status };
      if (event.type === 'ERROR') throw errorOfStatus(event.object);
      yield event;
    }
  } catch (error) {
    // Whoever fired the signal knows that the watch is over.
    if (!op.signal.aborted) throw error;
  }
}

function collectionPath(resource: Resource, namespace: string | undefined): string[] {
  const base = ['api', 'v1'];
  if (namespace === undefined || !RESOURCES[resource].namespaced) return [...base, resource];
  return [...base, 'namespaces', namespace, resource];
}

function objectPath(resource: Resource, { namespace, name }: ObjectKey): string[] {
  // Without a name the path would be that of the whole collection, and a delete would be everybody's end.
  if (name === '' || namespace === '') throw invalidArgument(`${resource}: a name is required`);
  return [...collectionPath(resource, namespace ?? 'default'), name];
}

function keyOf(resource: Resource, { metadata }: New<ResourceTypes[Resource]>): ObjectKey {
  const name = metadata.name ?? '';
  return RESOURCES[resource].namespaced ? { name, namespace: metadata.namespace ?? 'default' } : { name };
}
