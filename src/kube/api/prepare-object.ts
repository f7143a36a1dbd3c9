import { isDeepStrictEqual } from 'node:util';
import type { ConfigMap, KubeObject, New, ObjectMeta, Pod, Secret } from '../objects.ts';
import type { ResourceInfo } from '../resources.ts';
import { objectInvalid } from '../status-error.ts';
import { forbidden, invalid, type Issue } from '../validate/issue.ts';
import { immutableFieldIssues, secondsTimestamp } from './pod-strategy.ts';

/** What the API makes of an object that a client sent, before it is stored. Pure but for the uid that is handed in. */

export interface Birth {
  readonly name: string;
  readonly namespace?: string;
  readonly uid: string;
  readonly wallMs: number;
  /** Where pods go that name no node: there is one. */
  readonly nodeName?: string;
}

/** A new object: what only the API may say is said by it, whatever the client sent. */
export function newborn(sent: New<KubeObject>, info: ResourceInfo, birth: Birth): New<KubeObject> {
  const { generateName, labels, annotations, ownerReferences } = sent.metadata;
  const metadata: Partial<ObjectMeta> = {
    name: birth.name,
    ...(generateName === undefined ? {} : { generateName }),
    ...(birth.namespace === undefined ? {} : { namespace: birth.namespace }),
    uid: birth.uid,
    creationTimestamp: secondsTimestamp(birth.wallMs),
    ...(info.hasGeneration ? { generation: 1 } : {}),
    ...(labels === undefined ? {} : { labels }),
    ...(annotations === undefined ? {} : { annotations }),
    ...(ownerReferences === undefined ? {} : { ownerReferences }),
  };
  const object = { ...sent, metadata } as New<KubeObject>;
  if (object.kind === 'Pod') {
    const pod = object as New<Pod>;
    if (birth.nodeName !== undefined) pod.spec = { ...pod.spec, nodeName: pod.spec.nodeName ?? birth.nodeName };
    pod.status = { phase: 'Pending' };
  } else if (object.kind === 'Namespace') {
    Object.assign(object, { status: { phase: 'Active' } });
  }
  return object;
}

/**
 * The present object with the parts of `sent` that a client may change. The same object if nothing changes.
 *
 * @throws Invalid (422) where something was changed that cannot change
 */
export function successor(current: KubeObject, sent: New<KubeObject>, info: ResourceInfo): KubeObject {
  const { labels, annotations, ownerReferences } = sent.metadata;
  const metadata: Record<string, unknown> = { ...current.metadata };
  for (const [key, value] of Object.entries({ labels, annotations, ownerReferences })) {
    if (value === undefined) Reflect.deleteProperty(metadata, key);
    else metadata[key] = value;
  }
  const next = { ...sent, metadata } as unknown as KubeObject;
  // The node was filled in by the API: leaving it out does not ask for another.
  if (next.kind === 'Pod') next.spec = { ...next.spec, nodeName: next.spec.nodeName ?? (current as Pod).spec.nodeName };
  if (info.hasStatus) {
    const { status } = current as { status?: unknown };
    if (status === undefined) Reflect.deleteProperty(next, 'status');
    else Object.assign(next, { status });
  }
  const issues = changeIssues(current, next);
  if (issues.length > 0) throw objectInvalid(info.kind, current.metadata.name, issues);
  if (info.hasGeneration && !isDeepStrictEqual(specOf(current), specOf(next))) {
    next.metadata.generation = (current.metadata.generation ?? 0) + 1;
  }
  return isDeepStrictEqual(current, next) ? current : next;
}

/** The present object with another status. The same object if it has that status already. */
export function withStatus(current: KubeObject, sent: New<KubeObject>): KubeObject {
  const next = { ...current };
  const { status } = sent as { status?: unknown };
  if (status === undefined) Reflect.deleteProperty(next, 'status');
  else Object.assign(next, { status });
  return isDeepStrictEqual(current, next) ? current : next;
}

function specOf(object: KubeObject): unknown {
  return (object as { spec?: unknown }).spec;
}

function changeIssues(current: KubeObject, next: KubeObject): Issue[] {
  switch (next.kind) {
    case 'Pod':
      return immutableFieldIssues(current as Pod, next);
    case 'ConfigMap':
      return frozenIssues(current as ConfigMap, next, ['data', 'binaryData']);
    case 'Secret': {
      const before = current as Secret;
      const issues = frozenIssues(before, next, ['data']);
      if (before.type !== next.type) issues.push(invalid(['type'], next.type, 'field is immutable'));
      return issues;
    }
    case 'Event':
    case 'Namespace':
    case 'Node':
      return [];
  }
}

function frozenIssues<T extends ConfigMap | Secret>(
  current: T,
  next: T,
  fields: readonly (keyof T & string)[],
): Issue[] {
  if (current.immutable !== true) return [];
  const issues: Issue[] = [];
  if (next.immutable !== true) issues.push(forbidden(['immutable'], 'field is immutable when `immutable` is set'));
  for (const field of fields) {
    if (!isDeepStrictEqual(current[field], next[field])) {
      issues.push(forbidden([field], 'field is immutable when `immutable` is set'));
    }
  }
  return issues;
}
