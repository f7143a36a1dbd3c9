import { childSignal, raceSignal, type Op } from '../lib/abort.ts';
import { canceled } from '../lib/errors.ts';
import type { Clock } from '../lib/clock.ts';
import type { KubeClient, ListOptions, ObjectKey, WriteOptions } from './client.ts';
import type { New, Resource, ResourceTypes } from './objects.ts';
import { RESOURCES } from './resources.ts';
import type { ApiRegistry, WriteResult } from './api/registry.ts';
import { watchObjects } from './api/watch-objects.ts';

/** A KubeClient without a wire. Everything that goes in or out is copied, so that neither side can change the other's objects. */
export function inProcessClient(registry: ApiRegistry, clock: Clock): KubeClient {
  const write = async <R extends Resource>(
    op: Op,
    options: WriteOptions | undefined,
    result: Promise<WriteResult>,
  ): Promise<ResourceTypes[R]> => {
    const { object, warnings, created, unchanged = false } = await raceSignal(result, op.signal);
    for (const warning of warnings) options?.onWarning?.(warning);
    if (created) options?.onCreated?.();
    if (unchanged) options?.onUnchanged?.();
    return structuredClone(object) as ResourceTypes[R];
  };
  return {
    get: async <R extends Resource>(op: Op, resource: R, key: ObjectKey) => {
      op.signal.throwIfAborted();
      return await Promise.resolve(structuredClone(registry.get(resource, key)) as ResourceTypes[R]);
    },
    list: async <R extends Resource>(op: Op, resource: R, options?: ListOptions) => {
      op.signal.throwIfAborted();
      const list = registry.list(resource, options);
      return await Promise.resolve({ ...list, items: structuredClone(list.items) as ResourceTypes[R][] });
    },
    create: async (op, resource, object, options) => {
      op.signal.throwIfAborted();
      return await write(op, options, registry.create(resource, undefined, structuredClone(object), options));
    },
    replace: async (op, resource, object, options) => {
      op.signal.throwIfAborted();
      return await write(
        op,
        options,
        registry.replace(resource, keyOf(resource, object), structuredClone(object), options),
      );
    },
    replaceStatus: async (op, resource, object, options) => {
      op.signal.throwIfAborted();
      const key = keyOf(resource, object);
      return await write(op, options, registry.replaceStatus(resource, key, structuredClone(object), options));
    },
    patch: async (op, resource, key, patch, options) => {
      op.signal.throwIfAborted();
      return await write(op, options, registry.patch(resource, key, structuredClone(patch), options));
    },
    delete: async <R extends Resource>(
      op: Op,
      resource: R,
      key: ObjectKey,
      options?: Parameters<KubeClient['delete']>[3],
    ) => {
      op.signal.throwIfAborted();
      const deleted = await raceSignal(registry.delete(resource, key, options), op.signal);
      return structuredClone(deleted) as ResourceTypes[R];
    },
    watch: (op, resource, options = {}) => ({
      async *[Symbol.asyncIterator]() {
        using child = childSignal(op.signal);
        try {
          for await (const event of watchObjects(registry, clock, resource, options, child.signal)) {
            yield structuredClone(event) as never;
          }
        } finally {
          child.abort(canceled('the watch is over'));
        }
      },
    }),
  };
}

function keyOf(resource: Resource, { metadata }: New<ResourceTypes[Resource]>): ObjectKey {
  const name = metadata.name ?? '';
  return RESOURCES[resource].namespaced ? { name, namespace: metadata.namespace ?? 'default' } : { name };
}
