import type {
  ConfigMap,
  ContainerStatus,
  Event,
  KubeObject,
  Namespace,
  Node,
  Pod,
  Resource,
  Secret,
} from '../objects.ts';

/** Rows as `kubectl get` prints them: a client that asks for a table does not have to know the kind. */

export interface TableFormat {
  /** How much of each object goes with its row: `None`, `Metadata` or `Object`. */
  readonly include?: string;
}

interface Column {
  readonly name: string;
  readonly type?: 'string' | 'integer';
  readonly format?: string;
  /** 0: always shown; 1: with `-o wide`. */
  readonly priority?: 0 | 1;
}

interface TableKind {
  readonly columns: readonly Column[];
  readonly cells: (object: KubeObject, wallMs: number) => readonly (string | number)[];
}

const NAME: Column = { name: 'Name', format: 'name' };
const AGE: Column = { name: 'Age' };
const wide = (name: string): Column => ({ name, priority: 1 });

const NONE = '<none>';

const TABLES: Readonly<Record<Resource, TableKind>> = {
  pods: {
    columns: [
      NAME,
      { name: 'Ready' },
      { name: 'Status' },
      { name: 'Restarts' },
      AGE,
      wide('IP'),
      wide('Node'),
      wide('Nominated Node'),
      wide('Readiness Gates'),
    ],
    cells: (object, wallMs) => {
      const pod = object as Pod;
      const statuses = pod.status?.containerStatuses ?? [];
      const ready = statuses.filter((status) => status.ready).length;
      return [
        pod.metadata.name,
        `${ready}/${pod.spec.containers.length}`,
        podReason(pod),
        restarts(statuses, wallMs),
        ageOf(pod, wallMs),
        pod.status?.podIP ?? NONE,
        pod.spec.nodeName ?? NONE,
        NONE,
        NONE,
      ];
    },
  },
  configmaps: {
    columns: [NAME, { name: 'Data', type: 'integer' }, AGE],
    cells: (object, wallMs) => {
      const { data = {}, binaryData = {} } = object as ConfigMap;
      return [object.metadata.name, Object.keys(data).length + Object.keys(binaryData).length, ageOf(object, wallMs)];
    },
  },
  secrets: {
    columns: [NAME, { name: 'Type' }, { name: 'Data', type: 'integer' }, AGE],
    cells: (object, wallMs) => {
      const { type = 'Opaque', data = {} } = object as Secret;
      return [object.metadata.name, type, Object.keys(data).length, ageOf(object, wallMs)];
    },
  },
  events: {
    columns: [
      { name: 'Last Seen' },
      { name: 'Type' },
      { name: 'Reason' },
      { name: 'Object' },
      wide('Source'),
      { name: 'Message' },
      wide('Count'),
      { ...NAME, priority: 1 },
    ],
    cells: (object, wallMs) => {
      const event = object as Event;
      const { involvedObject: about } = event;
      const seen =
        event.series?.lastObservedTime ?? event.lastTimestamp ?? event.eventTime ?? event.metadata.creationTimestamp;
      return [
        since(seen, wallMs),
        event.type ?? '',
        event.reason ?? '',
        `${(about.kind ?? '').toLowerCase()}/${about.name ?? ''}`,
        [event.source?.component ?? event.reportingComponent, event.source?.host].filter(Boolean).join(', '),
        (event.message ?? '').trim(),
        event.series?.count ?? event.count ?? 1,
        event.metadata.name,
      ];
    },
  },
  namespaces: {
    columns: [NAME, { name: 'Status' }, AGE],
    cells: (object, wallMs) => [
      object.metadata.name,
      (object as Namespace).status?.phase ?? 'Active',
      ageOf(object, wallMs),
    ],
  },
  nodes: {
    columns: [
      NAME,
      { name: 'Status' },
      { name: 'Roles' },
      AGE,
      { name: 'Version' },
      wide('Internal-IP'),
      wide('OS-Image'),
      wide('Kernel-Version'),
      wide('Container-Runtime'),
    ],
    cells: (object, wallMs) => {
      const { metadata, status } = object as Node;
      const ready = status?.conditions?.find((condition) => condition.type === 'Ready')?.status;
      return [
        metadata.name,
        ready === undefined ? 'Unknown' : ready === 'True' ? 'Ready' : 'NotReady',
        NONE,
        ageOf(object, wallMs),
        status?.nodeInfo?.kubeletVersion ?? '',
        status?.addresses?.find((address) => address.type === 'InternalIP')?.address ?? NONE,
        status?.nodeInfo?.osImage ?? '',
        status?.nodeInfo?.kernelVersion ?? '',
        status?.nodeInfo?.containerRuntimeVersion ?? '',
      ];
    },
  },
};

export interface TableRequest {
  readonly format: TableFormat;
  /** For the ages. */
  readonly wallMs: number;
  readonly metadata: { readonly resourceVersion: string };
  /** False for the later events of a watch, as clients expect. */
  readonly withColumns: boolean;
}

export function tableOf(
  resource: Resource,
  objects: readonly KubeObject[],
  { format, wallMs, metadata, withColumns }: TableRequest,
): unknown {
  const { columns, cells } = TABLES[resource];
  const columnDefinitions = columns.map(({ name, type = 'string', format: of = '', priority = 0 }) => ({
    name,
    type,
    format: of,
    description: '',
    priority,
  }));
  return {
    kind: 'Table',
    apiVersion: 'meta.k8s.io/v1',
    metadata: { resourceVersion: metadata.resourceVersion },
    columnDefinitions: withColumns ? columnDefinitions : null,
    rows: objects.map((object) => ({ cells: cells(object, wallMs), ...rowObject(object, format.include) })),
  };
}

function rowObject(object: KubeObject, include = 'Metadata'): { object?: unknown } {
  if (include === 'None') return {};
  if (include === 'Object') return { object };
  return { object: { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata: object.metadata } };
}

/** Whether the client would rather have a table, by its Accept header: the first kind that we can make. */
export function wantedTable(accept: string | undefined): TableFormat | undefined {
  for (const part of (accept ?? '').split(',')) {
    const [type, ...parameters] = part.split(';').map((each) => each.trim());
    if (type !== 'application/json' && type !== '*/*' && type !== 'application/*') continue;
    if (!parameters.some((parameter) => parameter.startsWith('as='))) return undefined;
    if (parameters.includes('as=Table') && parameters.includes('v=v1') && parameters.includes('g=meta.k8s.io'))
      return {};
  }
  return undefined;
}

/** The one word for how a pod does: the most telling of its reasons, as `kubectl get pods` has it. */
function podReason({ metadata, status }: Pod): string {
  let reason = status?.reason ?? status?.phase ?? 'Pending';
  let anyRunning = false;
  for (const { state, ready } of (status?.containerStatuses ?? []).toReversed()) {
    if (state?.waiting?.reason !== undefined) reason = state.waiting.reason;
    else if (state?.terminated !== undefined) {
      const { reason: why, signal = 0, exitCode } = state.terminated;
      reason = why ?? (signal === 0 ? `ExitCode:${exitCode}` : `Signal:${signal}`);
    } else if (ready && state?.running !== undefined) anyRunning = true;
  }
  if (reason === 'Completed' && anyRunning) {
    const ready = status?.conditions?.some((condition) => condition.type === 'Ready' && condition.status === 'True');
    reason = ready === true ? 'Running' : 'NotReady';
  }
  return metadata.deletionTimestamp === undefined ? reason : 'Terminating';
}

function restarts(statuses: readonly ContainerStatus[], wallMs: number): string {
  const count = statuses.reduce((sum, status) => sum + status.restartCount, 0);
  const ends = statuses.map((status) => Date.parse(status.lastState?.terminated?.finishedAt ?? ''));
  const last = Math.max(...ends.filter((end) => !Number.isNaN(end)));
  return count === 0 || !Number.isFinite(last) ? String(count) : `${count} (${duration(wallMs - last)} ago)`;
}

function ageOf({ metadata }: KubeObject, wallMs: number): string {
  return since(metadata.creationTimestamp, wallMs);
}

function since(timestamp: string, wallMs: number): string {
  const then = Date.parse(timestamp);
  return Number.isNaN(then) ? '<unknown>' : duration(wallMs - then);
}

/** Two units at the most: `45s`, `3m12s`, `25m`, `5h7m`, `3d4h`, `12d`, `2y30d`. */
function duration(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  const days = Math.floor(hours / 24);
  const years = Math.floor(days / 365);
  if (seconds < 120) return `${seconds}s`;
  if (minutes < 10) return two(minutes, 'm', seconds % 60, 's');
  if (hours < 3) return `${minutes}m`;
  if (hours < 8) return two(hours, 'h', minutes % 60, 'm');
  if (hours < 48) return `${hours}h`;
  if (days < 8) return two(days, 'd', hours % 24, 'h');
  if (years < 2) return `${days}d`;
  return two(years, 'y', days % 365, 'd');
}

function two(major: number, majorUnit: string, minor: number, minorUnit: string): string {
  return minor === 0 ? `${major}${majorUnit}` : `${major}${majorUnit}${minor}${minorUnit}`;
}
