import type { Resource, ResourceTypes, Event, Node, Pod } from '../../kube/objects.ts';
import { singularOf } from '../resources.ts';
import { ageOf } from './age.ts';
import { lastRestart, podStatusWord, readyCount, restartCount } from './pod-summary.ts';

interface Column<T> {
  readonly header: string;
  /** Shown with `-o wide` only. */
  readonly wide?: true;
  cell(object: T, nowMs: number): string;
}

type Columns = { readonly [R in Resource]: readonly Column<ResourceTypes[R]>[] };

const none = '<none>';
const age = {
  header: 'AGE',
  cell: (object: { metadata: { creationTimestamp: string } }, nowMs: number) =>
    ageOf(object.metadata.creationTimestamp, nowMs),
};
const name = { header: 'NAME', cell: (object: { metadata: { name: string } }) => object.metadata.name };

function restarts(pod: Pod, nowMs: number): string {
  const count = restartCount(pod);
  const last = lastRestart(pod);
  return count > 0 && last !== undefined ? `${count} (${ageOf(last, nowMs)} ago)` : String(count);
}

function nodeStatus(node: Node): string {
  const ready = node.status?.conditions?.find((condition) => condition.type === 'Ready');
  return ready?.status === 'True' ? 'Ready' : 'NotReady';
}

function lastSeen(event: Event, nowMs: number): string {
  return ageOf(event.lastTimestamp ?? event.eventTime ?? event.metadata.creationTimestamp, nowMs);
}

const internalIp = (node: Node): string =>
  node.status?.addresses?.find((address) => address.type === 'InternalIP')?.address ?? none;

const COLUMNS: Columns = {
  pods: [
    name,
    { header: 'READY', cell: readyCount },
    { header: 'STATUS', cell: podStatusWord },
    { header: 'RESTARTS', cell: restarts },
    age,
    { header: 'IP', wide: true, cell: (pod) => pod.status?.podIP ?? none },
    { header: 'NODE', wide: true, cell: (pod) => pod.spec.nodeName ?? none },
  ],
  configmaps: [
    name,
    {
      header: 'DATA',
      cell: (map) => String(Object.keys(map.data ?? {}).length + Object.keys(map.binaryData ?? {}).length),
    },
    age,
  ],
  secrets: [
    name,
    { header: 'TYPE', cell: (secret) => secret.type ?? 'Opaque' },
    { header: 'DATA', cell: (secret) => String(Object.keys(secret.data ?? {}).length) },
    age,
  ],
  events: [
    { header: 'LAST SEEN', cell: lastSeen },
    { header: 'TYPE', cell: (event) => event.type ?? '' },
    { header: 'REASON', cell: (event) => event.reason ?? '' },
    {
      header: 'OBJECT',
      cell: (event) => `${(event.involvedObject.kind ?? '').toLowerCase()}/${event.involvedObject.name ?? ''}`,
    },
    { header: 'COUNT', wide: true, cell: (event) => String(event.count ?? 1) },
    { header: 'MESSAGE', cell: (event) => (event.message ?? '').trim().replaceAll('\n', ' ') },
  ],
  namespaces: [name, { header: 'STATUS', cell: (namespace) => namespace.status?.phase ?? 'Active' }, age],
  nodes: [
    name,
    { header: 'STATUS', cell: nodeStatus },
    age,
    { header: 'VERSION', cell: (node) => node.status?.nodeInfo?.kubeletVersion ?? '' },
    { header: 'INTERNAL-IP', wide: true, cell: internalIp },
    { header: 'OS-IMAGE', wide: true, cell: (node) => node.status?.nodeInfo?.osImage ?? '' },
    { header: 'KERNEL-VERSION', wide: true, cell: (node) => node.status?.nodeInfo?.kernelVersion ?? '' },
    { header: 'CONTAINER-RUNTIME', wide: true, cell: (node) => node.status?.nodeInfo?.containerRuntimeVersion ?? '' },
  ],
};

export interface TableOptions {
  readonly wide?: boolean;
  readonly showNamespace: boolean;
  readonly showLabels?: boolean;
  /** `pod/web` and not `web`: for when several kinds are shown. */
  readonly showKind?: boolean;
  readonly nowMs: number;
}

export function headerOf(resource: Resource, options: TableOptions): string[] {
  const columns: readonly Column<never>[] = COLUMNS[resource];
  return [
    ...(options.showNamespace ? ['NAMESPACE'] : []),
    ...columns.filter((column) => isShown(column, options)).map((column) => column.header),
    ...(options.showLabels === true ? ['LABELS'] : []),
  ];
}

export function rowOf<R extends Resource>(resource: R, object: ResourceTypes[R], options: TableOptions): string[] {
  const columns = COLUMNS[resource] as readonly Column<ResourceTypes[R]>[];
  const { namespace, labels } = object.metadata as { namespace?: string; labels?: Record<string, string> };
  return [
    ...(options.showNamespace ? [namespace ?? ''] : []),
    ...columns
      .filter((column) => isShown(column, options))
      .map((column) => {
        const text = column.cell(object, options.nowMs);
        return options.showKind === true && column.header === name.header ? `${singularOf(resource)}/${text}` : text;
      }),
    ...(options.showLabels === true ? [labelsOf(labels)] : []),
  ];
}

function isShown(column: { readonly wide?: true }, options: TableOptions): boolean {
  return options.wide === true || column.wide !== true;
}

function labelsOf(labels: Readonly<Record<string, string>> = {}): string {
  const pairs = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
  return pairs.length === 0 ? none : pairs.sort().join(',');
}
