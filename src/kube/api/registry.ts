import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../../lib/clock.ts';
import { isKind } from '../../lib/errors.ts';
import { newUid } from '../../lib/ids.ts';
import { AMPLE_ROOM, refuseWithoutRoom, type Room } from '../../lib/store/disk-room.ts';
import type { DeleteOptions, ListOptions, ObjectKey, Patch } from '../client.ts';
import type { KubeObject, Namespace, New, ObjectList, Resource } from '../objects.ts';
import { applyMerge } from '../patch/apply-merge.ts';
import { RESOURCES, type ResourceInfo } from '../resources.ts';
import { apiError, objectConflict, objectNotFound } from '../status-error.ts';
import type { UnknownFields } from '../validate/check-shape.ts';
import { generateName, MAX_NAME_TRIES } from './generate-name.ts';
import { appliedFields, checkedObject, checkPrecondition, patchedObject, statusCarrier } from './incoming-object.ts';
import type { Applied, Decision, ObjectStore, StoredObject } from './object-store.ts';
import { decidePodDeletion, secondsTimestamp } from './pod-strategy.ts';
import { newborn, successor, withStatus } from './prepare-object.ts';
import { selectorOf } from './selectors.ts';

export interface WriteRequest {
  readonly dryRun?: boolean;
  /** What to do about fields that nobody knows (default: an error). */
  readonly unknownFields?: UnknownFields;
}

export interface WriteResult {
  readonly object: KubeObject;
  readonly warnings: readonly string[];
  /** Whether the object was not there before. */
  readonly created: boolean;
  /** Whether an apply has left it as it was. */
  readonly unchanged?: boolean;
}

export interface RegistryDeps {
  readonly store: ObjectStore;
  readonly clock: Clock;
  /** The node whose agent runs the pods: pods that name no node get it. */
  readonly nodeName?: string | undefined;
  /** Changes and deletions go on without it; nothing is created (default: ample). */
  readonly room?: Room | undefined;
}

/** The namespaces that are always there. */
export const STANDING_NAMESPACES: readonly string[] = ['default', 'kube-system'];

/**
 * The API's rules over the store: what is valid, what is filled in, what may change, how things end. The HTTP server and the
 * in-process client are two doors to this.
 */
export class ApiRegistry {
  readonly #store: ObjectStore;
  readonly #clock: Clock;
  readonly #nodeName: string | undefined;
  readonly #room: Room;

  constructor(deps: RegistryDeps) {
    this.#store = deps.store;
    this.#clock = deps.clock;
    this.#nodeName = deps.nodeName;
    this.#room = deps.room ?? AMPLE_ROOM;
  }

  get store(): ObjectStore {
    return this.#store;
  }

  get(resource: Resource, key: ObjectKey): KubeObject {
    const stored = this.#store.get(resource, key);
    if (stored === undefined) throw objectNotFound(resource, key.name);
    return stored.object;
  }

  list(resource: Resource, options: ListOptions = {}): ObjectList<KubeObject> {
    const selects = selectorOf(resource, options.labelSelector, options.fieldSelector);
    const { namespace } = options;
    return {
      apiVersion: 'v1',
      kind: `${RESOURCES[resource].kind}List`,
      metadata: { resourceVersion: String(this.#store.resourceVersion) },
      items: this.#store
        .list(resource)
        .filter((object) => (namespace === undefined || object.metadata.namespace === namespace) && selects(object)),
    };
  }

  /** @param namespace of the request; the object may name the same one or none */
  async create(
    resource: Resource,
    namespace: string | undefined,
    sent: unknown,
    request: WriteRequest = {},
  ): Promise<WriteResult> {
    const info = RESOURCES[resource];
    const { object, warnings } = checkedObject(info, sent, { namespace }, request.unknownFields);
    if (object.metadata.resourceVersion !== undefined && object.metadata.resourceVersion !== '') {
      throw apiError('BadRequest', 'resourceVersion should not be set on objects to be created');
    }
    const { generateName: prefix = '' } = object.metadata;
    const given = object.metadata.name ?? '';
    for (let tries = 1; ; tries++) {
      const name = given === '' ? generateName(prefix) : given;
      const key = keyOf(info, object.metadata.namespace ?? namespace, name);
      try {
        const created = await this.#change(resource, key, request.dryRun === true, (current) => {
          if (current === undefined) return this.#birth(info, key, object);
          throw apiError('AlreadyExists', `${resource} ${JSON.stringify(name)} already exists`, {
            name,
            kind: resource,
          });
        });
        return { object: created, warnings: [...warnings, ...this.#placementWarnings(created)], created: true };
      } catch (error) {
        if (given !== '' || tries >= MAX_NAME_TRIES || !isKind(error, 'AlreadyExists')) throw error;
      }
    }
  }

  async replace(resource: Resource, key: ObjectKey, sent: unknown, request: WriteRequest = {}): Promise<WriteResult> {
    const info = RESOURCES[resource];
    const checked = checkedObject(info, sent, key, request.unknownFields);
    let warnings: readonly string[] = [];
    const replaced = await this.#change(resource, key, request.dryRun === true, (current) => {
      const decision = this.#succeed(info, key, current, checked.object);
      warnings = newWarnings(info, current, checked.warnings);
      return decision;
    });
    return { object: replaced, warnings, created: false };
  }

  async replaceStatus(
    resource: Resource,
    key: ObjectKey,
    sent: unknown,
    request: WriteRequest = {},
  ): Promise<WriteResult> {
    const object = statusCarrier(RESOURCES[resource], sent, key);
    const replaced = await this.#change(resource, key, request.dryRun === true, (current) => {
      const stored = this.#present(resource, key, current, object);
      return putOrKeep(stored, withStatus(stored.object, object));
    });
    return { object: replaced, warnings: [], created: false };
  }

  async patch(
    resource: Resource,
    key: ObjectKey,
    patch: Patch,
    request: WriteRequest & { readonly subresource?: 'status' } = {},
  ): Promise<WriteResult> {
    const info = RESOURCES[resource];
    if (patch.type === 'apply' && request.subresource === undefined) {
      return await this.#apply(info, key, patch, request);
    }
    let warnings: readonly string[] = [];
    const patched = await this.#change(resource, key, request.dryRun === true, (current) => {
      if (current === undefined) throw objectNotFound(resource, key.name);
      const merged = patchedObject(current.object, patch);
      if (request.subresource === 'status') {
        const object = statusCarrier(info, merged, key);
        this.#present(resource, key, current, object);
        return putOrKeep(current, withStatus(current.object, object));
      }
      const checked = checkedObject(info, merged, key, request.unknownFields);
      warnings = newWarnings(info, current, checked.warnings);
      return this.#succeed(info, key, current, checked.object);
    });
    return { object: patched, warnings, created: false };
  }

  async #apply(
    info: ResourceInfo,
    key: ObjectKey,
    { body, fieldManager }: Patch & { type: 'apply' },
    request: WriteRequest,
  ): Promise<WriteResult> {
    const wanted = appliedFields(body);
    let warnings: readonly string[] = [];
    const outcome = { created: false, unchanged: false };
    const object = await this.#change(info.resource, key, request.dryRun === true, (current) => {
      const merged = applyMerge(current?.applied?.[fieldManager], wanted, current?.object);
      const checked = checkedObject(info, merged, key, request.unknownFields);
      ({ warnings } = checked);
      const applied: Applied = { ...current?.applied, [fieldManager]: wanted };
      Object.assign(outcome, { created: current === undefined, unchanged: false });
      if (current === undefined) return { ...this.#birth(info, key, checked.object), applied };
      const decision = this.#succeed(info, key, current, checked.object);
      outcome.unchanged = decision.kind === 'keep';
      if (decision.kind === 'put') return { ...decision, applied };
      // What was applied is remembered even if it changes nothing: the next apply is measured against it.
      const known = isDeepStrictEqual(current.applied?.[fieldManager], wanted);
      return known ? decision : { kind: 'put', object: decision.object, applied };
    });
    const { created } = outcome;
    return { object, warnings: created ? [...warnings, ...this.#placementWarnings(object)] : warnings, ...outcome };
  }

  /** The object as it now stands, or the last state of what is gone. */
  async delete(resource: Resource, key: ObjectKey, options: DeleteOptions = {}): Promise<KubeObject> {
    const { gracePeriodSeconds, preconditions } = options;
    if (gracePeriodSeconds !== undefined && !(Number.isSafeInteger(gracePeriodSeconds) && gracePeriodSeconds >= 0)) {
      throw apiError('BadRequest', `gracePeriodSeconds must be an integer of at least 0, not ${gracePeriodSeconds}`);
    }
    return await this.#change(resource, key, options.dryRun === true, (current) => {
      if (current === undefined) throw objectNotFound(resource, key.name);
      const { object } = current;
      checkPrecondition(resource, key, 'UID', preconditions?.uid, object.metadata.uid);
      checkPrecondition(
        resource,
        key,
        'ResourceVersion',
        preconditions?.resourceVersion,
        object.metadata.resourceVersion,
      );
      if (object.kind === 'Namespace') return this.#endNamespace(current, object);
      if (object.kind !== 'Pod') return { kind: 'remove', object };
      const deletion = decidePodDeletion(object, {
        ...(gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds }),
        namesUid: preconditions?.uid !== undefined,
        ...(this.#nodeName === undefined ? {} : { nodeName: this.#nodeName }),
        wallMs: this.#clock.wallMs(),
      });
      switch (deletion.kind) {
        case 'mark':
          return putOrKeep(current, deletion.pod);
        case 'unchanged':
          return { kind: 'keep', object };
        case 'remove':
          return { kind: 'remove', object };
      }
    });
  }

  /** Deletes all that is selected, each as {@link delete} does. What goes meanwhile by itself is no error. */
  async deleteCollection(
    resource: Resource,
    list: ListOptions,
    options: DeleteOptions = {},
  ): Promise<ObjectList<KubeObject>> {
    const found = this.list(resource, list);
    const items: KubeObject[] = [];
    for (const { metadata } of found.items) {
      try {
        items.push(await this.delete(resource, metadata, options));
      } catch (error) {
        if (!isKind(error, 'NotFound')) throw error;
      }
    }
    return { ...found, items };
  }

  /** Takes a namespace away if it is ending and nothing is left in it. True if it went. */
  async removeNamespaceIfEmpty(name: string): Promise<boolean> {
    let removed = false;
    await this.#store.change('namespaces', { name }, (current) => {
      if (current === undefined) throw objectNotFound('namespaces', name);
      const { object } = current;
      const ending = object.metadata.deletionTimestamp !== undefined;
      removed = ending && !this.#store.busy(name) && this.#contentOf(name).length === 0;
      return removed ? { kind: 'remove', object } : { kind: 'keep', object };
    });
    return removed;
  }

  #contentOf(namespace: string): KubeObject[] {
    return Object.values(RESOURCES)
      .filter((info) => info.namespaced)
      .flatMap(({ resource }) => this.#store.list(resource).filter(({ metadata }) => metadata.namespace === namespace));
  }

  async #change(
    resource: Resource,
    key: ObjectKey,
    dryRun: boolean,
    decide: (current: StoredObject | undefined) => Decision,
  ): Promise<KubeObject> {
    if (this.#room.shortage !== undefined) await this.#room.look();
    return await this.#store.change(resource, key, (current) => {
      const decision = decide(current);
      return dryRun ? { kind: 'keep', object: decision.object as KubeObject } : decision;
    });
  }

  #birth(info: ResourceInfo, key: ObjectKey, object: New<KubeObject>): Decision & { kind: 'put' } {
    if (key.namespace !== undefined) {
      const namespace = this.#store.get('namespaces', { name: key.namespace })?.object;
      if (namespace === undefined) throw objectNotFound('namespaces', key.namespace);
      if (namespace.metadata.deletionTimestamp !== undefined) {
        const why = `unable to create new content in namespace ${key.namespace} because it is being terminated`;
        throw apiError('Forbidden', `${info.resource} ${JSON.stringify(key.name)} is forbidden: ${why}`, {
          name: key.name,
          kind: info.resource,
        });
      }
    }
    refuseWithoutRoom(this.#room, `no new ${info.resource} are taken`);
    const born = newborn(object, info, {
      ...key,
      uid: newUid(),
      wallMs: this.#clock.wallMs(),
      ...(this.#nodeName === undefined ? {} : { nodeName: this.#nodeName }),
    });
    return { kind: 'put', object: born };
  }

  #succeed(info: ResourceInfo, key: ObjectKey, current: StoredObject | undefined, sent: New<KubeObject>): Decision {
    const stored = this.#present(info.resource, key, current, sent);
    return putOrKeep(stored, successor(stored.object, sent, info));
  }

  /** The object that a write is meant for, if it is still the one that the writer has seen. */
  #present(resource: Resource, key: ObjectKey, current: StoredObject | undefined, sent: New<KubeObject>): StoredObject {
    if (current === undefined) throw objectNotFound(resource, key.name);
    const { uid, resourceVersion } = sent.metadata;
    checkPrecondition(resource, key, 'UID', uid, current.object.metadata.uid);
    if (
      resourceVersion !== undefined &&
      resourceVersion !== '' &&
      resourceVersion !== current.object.metadata.resourceVersion
    ) {
      const why = 'the object has been modified; please apply your changes to the latest version and try again';
      throw objectConflict(resource, key.name, why);
    }
    return current;
  }

  #endNamespace(current: StoredObject, namespace: Namespace): Decision {
    const { name } = namespace.metadata;
    if (STANDING_NAMESPACES.includes(name)) {
      throw apiError(
        'Forbidden',
        `namespaces ${JSON.stringify(name)} is forbidden: this namespace may not be deleted`,
        { name, kind: 'namespaces' },
      );
    }
    if (namespace.metadata.deletionTimestamp !== undefined) return { kind: 'keep', object: namespace };
    const deletionTimestamp = secondsTimestamp(this.#clock.wallMs());
    return putOrKeep(current, {
      ...namespace,
      metadata: { ...namespace.metadata, deletionTimestamp },
      status: { ...namespace.status, phase: 'Terminating' },
    });
  }

  #placementWarnings(object: KubeObject): string[] {
    if (object.kind !== 'Pod' || this.#nodeName === undefined) return [];
    const { nodeName } = object.spec;
    if (nodeName === undefined || nodeName === this.#nodeName) return [];
    return [
      `spec.nodeName: there is no node ${JSON.stringify(nodeName)} here (this one is ${JSON.stringify(this.#nodeName)}): the pod will not run`,
    ];
  }
}

function keyOf(info: ResourceInfo, namespace: string | undefined, name: string): ObjectKey {
  if (!info.namespaced) return { name };
  return { namespace: namespace === undefined || namespace === '' ? 'default' : namespace, name };
}

/** Those that the object as it was did not give reason for: who sets a label need not hear of the node selector again. */
function newWarnings(
  info: ResourceInfo,
  current: StoredObject | undefined,
  warnings: readonly string[],
): readonly string[] {
  if (warnings.length === 0 || current === undefined) return warnings;
  const known = checkedObject(info, current.object, {}, 'warn').warnings;
  return warnings.filter((warning) => !known.includes(warning));
}

function putOrKeep(current: StoredObject, next: KubeObject): Decision {
  if (next === current.object) return { kind: 'keep', object: next };
  return { kind: 'put', object: next, ...(current.applied === undefined ? {} : { applied: current.applied }) };
}
