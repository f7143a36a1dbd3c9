import type { Resource } from '../objects.ts';
import { dataKey, labelValue, qualifiedName } from './names.ts';
import { podSpec } from './pod-schema.ts';
import {
  any,
  checked,
  flag,
  has,
  list,
  map,
  must,
  object,
  refuse,
  text,
  warn,
  type Fields,
  type Shape,
} from './schema.ts';

/** What the API fills in itself is let pass in what clients send, as they send back what they were given. */
const metadata: Fields = {
  name: has(text),
  generateName: has(text),
  namespace: has(text),
  labels: has(map(checked(labelValue), qualifiedName)),
  // Keys of annotations are checked without regard to case.
  annotations: has(map(text, (key) => qualifiedName(key.toLowerCase()))),
  finalizers: refuse('finalizers'),
  ownerReferences: warn('nothing is deleted with its owner here'),
  uid: has(text),
  resourceVersion: has(text),
  creationTimestamp: has(any),
  generation: has(any),
  deletionTimestamp: has(any),
  deletionGracePeriodSeconds: has(any),
  managedFields: has(any),
  selfLink: has(any),
};

const base: Fields = { apiVersion: must(text), kind: must(text), metadata: must(object(metadata)) };
const data = map(text, dataKey);

/** The shape of each kind that this API keeps. Events and nodes are written by agents, newer ones than this too: their inside is left alone. */
export const objectShapes: Readonly<Record<Resource, Shape>> = {
  pods: object({ ...base, spec: must(object(podSpec)), status: has(any) }),
  configmaps: object({ ...base, data: has(data), binaryData: has(data), immutable: has(flag) }),
  secrets: object({ ...base, data: has(data), stringData: has(data), type: has(text), immutable: has(flag) }),
  namespaces: object({ ...base, spec: has(object({ finalizers: has(list(text)) })), status: has(any) }),
  nodes: object({ ...base, spec: has(any), status: has(any) }),
  events: object({
    ...base,
    involvedObject: must(any),
    ...Object.fromEntries(
      [
        'action',
        'count',
        'eventTime',
        'firstTimestamp',
        'lastTimestamp',
        'message',
        'reason',
        'related',
        'reportingComponent',
        'reportingInstance',
        'series',
        'source',
        'type',
      ].map((name) => [name, has(any)]),
    ),
  }),
};
