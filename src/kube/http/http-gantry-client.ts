import type { Op } from '../../lib/abort.ts';
import type { DoctorReport } from '../../lib/doctor.ts';
import type {
  Explanation,
  GantryExtensions,
  ImageDetails,
  ImageProgress,
  ImageSummary,
  PodSubresources,
  StopOutcome,
} from '../gantry-extensions.ts';
import type { Status } from '../objects.ts';
import { METRICS_GROUP, METRICS_VERSION, type PodMetrics } from '../pod-metrics.ts';
import { errorOfStatus } from '../status-error.ts';
import type { HttpConnection, HttpRequest } from './http-connection.ts';
import { jsonLines } from './json-lines.ts';
import { complete, explainedByVersion, type Versions } from './older-daemon.ts';

const BASE = ['gantry', 'v1'] as const;

/** Gantry's own half of the API, over HTTP. What it cannot make sense of it puts down to the daemon's version. */
export function httpGantryClient(connection: HttpConnection, versions: Versions): GantryExtensions & PodSubresources {
  /** The answer, which has these fields. */
  const ask = async <T>(op: Op, request: HttpRequest, ...needed: readonly (keyof T & string)[]): Promise<T> => {
    try {
      return complete((await connection.ask<T>(op, request)).body, ...needed);
    } catch (error) {
      throw await explainedByVersion(op, error, versions);
    }
  };
  return {
    logs: (op, { namespace, name, ...query }) =>
      connection.stream(op, {
        method: 'GET',
        path: ['api', 'v1', 'namespaces', namespace, 'pods', name, 'log'],
        query,
      }),
    explain: async (op, { namespace, name, uid }) => {
      const path = [...BASE, 'namespaces', namespace, 'pods', name, 'explain'];
      return await ask<Explanation>(op, { method: 'GET', path, query: { uid } }, 'entries', 'pending', 'objects');
    },
    explainContainer: async (op, { namespace, container }) => {
      const path = [...BASE, 'namespaces', namespace, 'explain'];
      return await ask<Explanation>(op, { method: 'GET', path, query: { container } }, 'entries', 'pending', 'objects');
    },
    podMetrics: async (op, { namespace, name, labelSelector }) => {
      const inNamespace = namespace === undefined ? [] : ['namespaces', namespace];
      const path = ['apis', METRICS_GROUP, METRICS_VERSION, ...inNamespace, 'pods'];
      if (name !== undefined) {
        return [await ask<PodMetrics>(op, { method: 'GET', path: [...path, name] }, 'metadata', 'containers')];
      }
      const request: HttpRequest = { method: 'GET', path, query: { labelSelector } };
      return (await ask<{ items: PodMetrics[] }>(op, request, 'items')).items;
    },
    doctor: async (op, body) => {
      const request: HttpRequest = { method: 'POST', path: [...BASE, 'doctor'], body };
      return await ask<DoctorReport>(op, request, 'instanceId', 'findings', 'notices');
    },
    stop: async (op, body) => {
      const request: HttpRequest = { method: 'POST', path: [...BASE, 'stop'], body };
      return await ask<StopOutcome>(op, request, 'containerId', 'pod', 'container');
    },
    listImages: async (op) => {
      const request: HttpRequest = { method: 'GET', path: [...BASE, 'images'] };
      return (await ask<{ items: ImageSummary[] }>(op, request, 'items')).items;
    },
    inspectImage: async (op, reference) => {
      const request: HttpRequest = { method: 'GET', path: [...BASE, 'images', 'inspect'], query: { reference } };
      return await ask<ImageDetails>(op, request, 'id', 'layers', 'config');
    },
    pullImage: (op, body) =>
      progress(connection, op, { method: 'POST', path: [...BASE, 'images', 'pull'], body }, versions),
    importImage: (op, body) =>
      progress(connection, op, { method: 'POST', path: [...BASE, 'images', 'import'], body }, versions),
    removeImage: async (op, reference, { force = false } = {}) => {
      const query = force ? { reference, force: 'true' } : { reference };
      const request: HttpRequest = { method: 'DELETE', path: [...BASE, 'images'], query };
      return (await ask<{ removed: string[] }>(op, request, 'removed')).removed;
    },
  };
}

async function* progress(
  connection: HttpConnection,
  op: Op,
  request: HttpRequest,
  versions: Versions,
): AsyncGenerator<ImageProgress, void, undefined> {
  try {
    for await (const line of jsonLines(connection.stream(op, request))) {
      const item = line as ImageProgress | { kind: 'error'; status: Status };
      if (item.kind === 'error') throw errorOfStatus(item.status);
      yield item;
    }
  } catch (error) {
    throw await explainedByVersion(op, error, versions);
  }
}
