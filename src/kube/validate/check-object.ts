import { isDeepStrictEqual } from 'node:util';
import type { KubeObject, New, Pod } from '../objects.ts';
import { RESOURCES, resourceOfKind, type ResourceInfo } from '../resources.ts';
import { checkShape, isRecord, type UnknownFields } from './check-shape.ts';
import { dataRules } from './data-rules.ts';
import { invalid, notSupported, required, tooLong, type FieldWarning, type Issue } from './issue.ts';
import { dnsLabel, dnsSubdomain } from './names.ts';
import { objectShapes } from './object-schema.ts';
import { podRules } from './pod-rules.ts';
import { closest } from './suggest.ts';

export interface CheckedObject {
  /** Undefined if the kind is none of ours. */
  readonly info?: ResourceInfo;
  /** Clean of nulls; to be used only if there are no issues. Defaults are not applied. */
  readonly object: New<KubeObject>;
  readonly issues: readonly Issue[];
  readonly warnings: readonly FieldWarning[];
}

/** Checks a whole object, as a client sent it, against everything known about its kind. */
export function checkObject(value: unknown, unknownFields: UnknownFields = 'error'): CheckedObject {
  const object = value as New<KubeObject>;
  if (!isRecord(value)) {
    return {
      object,
      issues: [invalid([], value, 'expected a Kubernetes object, that is a map of fields')],
      warnings: [],
    };
  }
  const typed = typeIssues(value);
  if (typed.info === undefined) return { object, issues: typed.issues, warnings: [] };
  const { info } = typed;
  const shaped = checkShape(value, objectShapes[info.resource], [], unknownFields);
  const checked = shaped.value as New<KubeObject>;
  const issues = [...typed.issues, ...shaped.issues, ...metadataIssues(checked, info)];
  // The rules between fields read the object by its type, so they wait until every field has the right one.
  const wellTyped = !shaped.issues.some(
    ({ reason }) => reason === 'FieldValueTypeInvalid' || reason === 'FieldValueRequired',
  );
  if (wellTyped) issues.push(...rulesOf(checked).filter((issue) => !isAboutLeftOut(issue, shaped.issues)));
  return { info, object: checked, issues, warnings: shaped.warnings };
}

/**
 * Whether a rule finds a part empty only because what it has was refused or is unknown: that has been said, and "must have one of …"
 * beside it would send the reader the wrong way.
 */
function isAboutLeftOut({ path, reason }: Issue, said: readonly Issue[]): boolean {
  if (reason !== 'FieldValueRequired' && reason !== 'FieldValueInvalid') return false;
  return said.some(
    (earlier) =>
      (earlier.reason === 'FieldValueForbidden' || earlier.reason === 'FieldUnknown') &&
      isDeepStrictEqual(earlier.path.slice(0, -1), path),
  );
}

function rulesOf(object: New<KubeObject>): Issue[] {
  switch (object.kind) {
    case 'Pod':
      return podRules(object as Pod);
    case 'ConfigMap':
    case 'Secret':
      return dataRules(object);
    case 'Event':
    case 'Namespace':
    case 'Node':
      return [];
  }
}

/** Kinds that a manifest may name, in the order in which people meet them. */
const KINDS: readonly string[] = Object.values(RESOURCES).map((info) => info.kind);

function typeIssues(value: Record<string, unknown>): { info?: ResourceInfo; issues: Issue[] } {
  const { kind, apiVersion } = value;
  if (kind === undefined || kind === null || kind === '') return { issues: [required(['kind'])] };
  if (typeof kind !== 'string') return { issues: [invalid(['kind'], kind, 'expected a string')] };
  const info = resourceOfKind(kind);
  if (info === undefined) {
    const guess = closest(kind, KINDS);
    const why = guess === undefined ? '' : ` (did you mean ${JSON.stringify(guess)}?)`;
    const issue = notSupported(['kind'], kind, KINDS);
    return { issues: [{ ...issue, message: issue.message + why }] };
  }
  // A missing apiVersion is found with the other required fields.
  if (typeof apiVersion !== 'string' || apiVersion === '' || apiVersion === 'v1') return { info, issues: [] };
  return { info, issues: [notSupported(['apiVersion'], apiVersion, ['v1'])] };
}

/** Kubernetes' limit for all annotations of an object together. */
const MAX_ANNOTATIONS_BYTES = 256 * 1024;

function metadataIssues(object: New<KubeObject>, info: ResourceInfo): Issue[] {
  const issues: Issue[] = [];
  const metadata: unknown = object.metadata;
  if (!isRecord(metadata)) return issues;
  const { name, generateName, namespace, annotations } = metadata;
  const check = info.resource === 'namespaces' ? dnsLabel : dnsSubdomain;
  if (typeof name === 'string' && name !== '') {
    const why = check(name);
    if (why !== undefined) issues.push(invalid(['metadata', 'name'], name, why));
  } else if (typeof generateName === 'string' && generateName !== '') {
    const why = check(`${generateName}x`);
    if (why !== undefined) issues.push(invalid(['metadata', 'generateName'], generateName, why));
  } else if (name === undefined || name === '') {
    issues.push(required(['metadata', 'name'], 'name or generateName is required'));
  }
  if (typeof namespace === 'string' && namespace !== '') {
    const why = dnsLabel(namespace);
    if (!info.namespaced) issues.push(invalid(['metadata', 'namespace'], namespace, `a ${info.kind} has no namespace`));
    else if (why !== undefined) issues.push(invalid(['metadata', 'namespace'], namespace, why));
  }
  if (isRecord(annotations) && bytesOf(annotations) > MAX_ANNOTATIONS_BYTES) {
    issues.push(tooLong(['metadata', 'annotations'], MAX_ANNOTATIONS_BYTES));
  }
  return issues;
}

function bytesOf(entries: Record<string, unknown>): number {
  let bytes = 0;
  for (const [key, value] of Object.entries(entries)) {
    bytes += Buffer.byteLength(key) + (typeof value === 'string' ? Buffer.byteLength(value) : 0);
  }
  return bytes;
}
