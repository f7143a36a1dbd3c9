import type { Event, KubeObject, Node, Pod, Resource, Secret } from '../objects.ts';
import { apiError } from '../status-error.ts';
import { labelValue, qualifiedName } from '../validate/names.ts';

export type Selector = (object: KubeObject) => boolean;

const everything: Selector = () => true;

/** Both selectors as one question. Throws BadRequest (400) for what is not a selector or asks for an unknown field. */
export function selectorOf(resource: Resource, labelSelector = '', fieldSelector = ''): Selector {
  const byLabel = parseLabelSelector(labelSelector);
  const byField = parseFieldSelector(resource, fieldSelector);
  if (byLabel === everything) return byField;
  if (byField === everything) return byLabel;
  return (object) => byLabel(object) && byField(object);
}

type LabelTest = (labels: Readonly<Record<string, string>>) => boolean;

/** `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b,c)`, `a`, `!a`, `a>1`, `a<1`, joined by commas. */
function parseLabelSelector(text: string): Selector {
  const tests = splitOutsideBrackets(text).map(labelTest);
  if (tests.length === 0) return everything;
  return ({ metadata }) => tests.every((test) => test(metadata.labels ?? {}));
}

function labelTest(part: string): LabelTest {
  const set = /^(\S+)\s+(in|notin)\s*\(([^()]*)\)$/.exec(part);
  if (set !== null) {
    const [, key = '', operator, list = ''] = set;
    const values = list.split(',').map((value) => value.trim());
    checkLabel(part, key, values);
    // An object without the label is not in any set.
    return (labels) => (labels[key] !== undefined && values.includes(labels[key])) === (operator === 'in');
  }
  const exists = /^(!?)\s*([^\s=!<>(),]+)$/.exec(part);
  if (exists !== null) {
    const [, not, key = ''] = exists;
    checkLabel(part, key, []);
    return (labels) => Object.hasOwn(labels, key) === (not === '');
  }
  const compared = /^([^\s=!<>]+)\s*(==|=|!=|>|<)\s*(\S*)$/.exec(part);
  if (compared === null) throw badSelector(part, 'found no key and operator in it');
  const [, key = '', operator = '', value = ''] = compared;
  checkLabel(part, key, [value]);
  switch (operator) {
    case '!=':
      return (labels) => labels[key] !== value;
    case '>':
      return (labels) => labels[key] !== undefined && Number(labels[key]) > Number(value);
    case '<':
      return (labels) => labels[key] !== undefined && Number(labels[key]) < Number(value);
    default:
      return (labels) => labels[key] === value;
  }
}

function checkLabel(part: string, key: string, values: readonly string[]): void {
  const why = qualifiedName(key) ?? values.map(labelValue).find((each) => each !== undefined);
  if (why !== undefined) throw badSelector(part, why);
}

type FieldValue = (object: KubeObject) => string | undefined;

const COMMON_FIELDS: Readonly<Record<string, FieldValue>> = {
  'metadata.name': ({ metadata }) => metadata.name,
  'metadata.namespace': ({ metadata }) => metadata.namespace ?? '',
};

const involved = (field: keyof Event['involvedObject']): FieldValue => {
  return (object) => (object as Event).involvedObject[field] ?? '';
};

/** Fields that can be asked for, those of Kubernetes. */
const FIELDS: Readonly<Record<Resource, Readonly<Record<string, FieldValue>>>> = {
  pods: {
    'spec.nodeName': (object) => (object as Pod).spec.nodeName ?? '',
    'spec.restartPolicy': (object) => (object as Pod).spec.restartPolicy ?? '',
    'spec.schedulerName': (object) => (object as Pod).spec.schedulerName ?? '',
    'spec.serviceAccountName': (object) => (object as Pod).spec.serviceAccountName ?? '',
    'spec.hostNetwork': (object) => String((object as Pod).spec.hostNetwork ?? false),
    'status.phase': (object) => (object as Pod).status?.phase ?? '',
    'status.podIP': (object) => (object as Pod).status?.podIP ?? '',
    'status.nominatedNodeName': () => '',
  },
  configmaps: {},
  secrets: { type: (object) => (object as Secret).type ?? '' },
  events: {
    'involvedObject.kind': involved('kind'),
    'involvedObject.namespace': involved('namespace'),
    'involvedObject.name': involved('name'),
    'involvedObject.uid': involved('uid'),
    'involvedObject.apiVersion': involved('apiVersion'),
    'involvedObject.resourceVersion': involved('resourceVersion'),
    'involvedObject.fieldPath': involved('fieldPath'),
    reason: (object) => (object as Event).reason ?? '',
    reportingComponent: (object) => (object as Event).reportingComponent ?? '',
    source: (object) => (object as Event).source?.component ?? (object as Event).reportingComponent ?? '',
    type: (object) => (object as Event).type ?? '',
  },
  namespaces: { 'status.phase': (object) => (object as { status?: { phase?: string } }).status?.phase ?? '' },
  nodes: { 'spec.unschedulable': (object) => String((object as Node).spec?.unschedulable ?? false) },
};

/** `a=b`, `a==b`, `a!=b`, joined by commas. */
function parseFieldSelector(resource: Resource, text: string): Selector {
  const parts = text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
  if (parts.length === 0) return everything;
  const known = { ...COMMON_FIELDS, ...FIELDS[resource] };
  const tests = parts.map((part): Selector => {
    const match = /^([^=!]+)(==|=|!=)(.*)$/.exec(part);
    if (match === null) throw badSelector(part, 'must be FIELD=VALUE or FIELD!=VALUE');
    const [, name = '', operator, wanted = ''] = match;
    const field = Object.hasOwn(known, name) ? known[name] : undefined;
    if (field === undefined) throw apiError('BadRequest', `field label not supported: ${name}`);
    return (object) => (field(object) === wanted) === (operator !== '!=');
  });
  return (object) => tests.every((test) => test(object));
}

function splitOutsideBrackets(text: string): string[] {
  const parts = text.match(/(?:[^,(]|\([^)]*\))+/g) ?? [];
  return parts.map((part) => part.trim()).filter((part) => part !== '');
}

function badSelector(part: string, why: string): Error {
  return apiError('BadRequest', `unable to parse requirement ${JSON.stringify(part)}: ${why}`);
}
