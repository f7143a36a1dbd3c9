import type { ObjectKey, Patch } from '../client.ts';
import type { KubeObject, New, Resource } from '../objects.ts';
import { jsonPatch } from '../patch/json-patch.ts';
import { mergePatch } from '../patch/merge-patch.ts';
import { strategicMerge } from '../patch/strategic-merge.ts';
import type { ResourceInfo } from '../resources.ts';
import { apiError, objectConflict, objectInvalid } from '../status-error.ts';
import { checkObject } from '../validate/check-object.ts';
import { isRecord, type UnknownFields } from '../validate/check-shape.ts';
import { applyDefaults, foldStringData } from '../validate/defaults.ts';
import { renderIssue } from '../validate/issue.ts';

/** From what a request carries to an object that can be worked with. Pure. */

const NO_OBJECT = 'the body must be a Kubernetes object, that is a map of fields';

/**
 * The object as sent, valid and with its defaults.
 *
 * @param key of the URL, as far as it says: the object may name the same or nothing
 * @throws BadRequest (400), Invalid (422)
 */
export function checkedObject(
  info: ResourceInfo,
  sent: unknown,
  key: Partial<ObjectKey>,
  unknownFields: UnknownFields | undefined,
): { object: New<KubeObject>; warnings: readonly string[] } {
  if (!isRecord(sent)) throw apiError('BadRequest', NO_OBJECT);
  // Both are known from the URL, and typed clients leave them out.
  const complete = { ...sent, apiVersion: sent['apiVersion'] ?? 'v1', kind: sent['kind'] ?? info.kind };
  if (complete.kind !== info.kind) {
    const what = `the object is a ${JSON.stringify(complete.kind)}, and this is where each ${info.kind} is kept`;
    throw apiError('BadRequest', what);
  }
  const { object, issues, warnings } = checkObject(complete, unknownFields);
  if (issues.length > 0) throw objectInvalid(info.kind, nameIn(object) ?? key.name ?? '', issues);
  const { name, namespace } = object.metadata;
  if (key.name !== undefined && name !== key.name) throw otherName(name, key.name);
  if (key.namespace !== undefined && namespace !== undefined && namespace !== '' && namespace !== key.namespace) {
    throw apiError(
      'BadRequest',
      `the namespace of the provided object does not match the namespace sent on the request (${namespace}, ${key.namespace})`,
    );
  }
  applyDefaults(object);
  return { object, warnings: warnings.map(renderIssue) };
}

/** An object of which only the status counts: the rest need not be complete. */
export function statusCarrier(info: ResourceInfo, sent: unknown, key: ObjectKey): New<KubeObject> {
  if (!info.hasStatus) throw apiError('NotFound', `${info.resource} have no status of their own`);
  if (!isRecord(sent) || !isRecord(sent['metadata'])) throw apiError('BadRequest', NO_OBJECT);
  const { metadata, status } = sent;
  if (metadata['name'] !== undefined && metadata['name'] !== key.name) throw otherName(metadata['name'], key.name);
  if (status !== undefined && status !== null && !isRecord(status)) {
    throw apiError('BadRequest', 'status must be a map of fields');
  }
  return sent as unknown as New<KubeObject>;
}

/** What is to be applied. An exported object may be applied as it is: what only the API writes is nobody's wish. */
export function appliedFields(body: unknown): unknown {
  if (!isRecord(body)) throw apiError('BadRequest', NO_OBJECT);
  const rest: Record<string, unknown> = foldStringData({ ...body });
  delete rest['status'];
  if (!isRecord(rest['metadata'])) return rest;
  const { name, namespace, labels, annotations, ownerReferences, finalizers } = rest['metadata'];
  const metadata = Object.entries({ name, namespace, labels, annotations, ownerReferences, finalizers });
  return { ...rest, metadata: Object.fromEntries(metadata.filter(([, value]) => value !== undefined)) };
}

/** What the patch makes of the object. */
export function patchedObject(object: KubeObject, patch: Patch): unknown {
  switch (patch.type) {
    case 'merge':
      return mergePatch(object, patch.body);
    case 'json':
      return jsonPatch(object, patch.body);
    case 'strategic':
      return strategicMerge(object, patch.body);
    case 'apply':
      // Applying a status is merging it: what only one manager writes needs no memory of who wrote it.
      return strategicMerge(object, patch.body);
  }
}

/** @throws Conflict (409) if something else was wanted than is there */
export function checkPrecondition(
  resource: Resource,
  key: ObjectKey,
  what: 'UID' | 'ResourceVersion',
  wanted: string | undefined,
  found: string,
): void {
  if (wanted === undefined || wanted === '' || wanted === found) return;
  const why = `Precondition failed: ${what} in precondition: ${wanted}, ${what} in object meta: ${found}`;
  throw objectConflict(resource, key.name, why);
}

function nameIn(object: { metadata?: unknown }): string | undefined {
  const name = isRecord(object.metadata) ? object.metadata['name'] : undefined;
  return typeof name === 'string' && name !== '' ? name : undefined;
}

function otherName(found: unknown, wanted: string): Error {
  return apiError(
    'BadRequest',
    `the name of the object (${JSON.stringify(found)}) does not match the name on the URL (${JSON.stringify(wanted)})`,
  );
}
