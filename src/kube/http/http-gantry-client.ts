import type { Op } from '../../lib/abort.ts';
import type { DoctorReport } from '../../lib/doctor.ts';
import type {
  Explanation,
  GantryExtensions,
  ImageProgress,
  ImageSummary,
  PodSubresources,
  StopOutcome,
} from '../gantry-extensions.ts';
import type { Status } from '../objects.ts';
import { errorOfStatus } from '../status-error.ts';
import type { HttpConnection, HttpRequest } from './http-connection.ts';
import { jsonLines } from './json-lines.ts';

const BASE = ['gantry', 'v1'] as const;

/** Gantry's own half of the API, over HTTP. */
export function httpGantryClient(connection: HttpConnection): GantryExtensions & PodSubresources {
  return {
    logs: (op, { namespace, name, ...query }) =>
      connection.stream(op, {
        method: 'GET',
        path: ['api', 'v1', 'namespaces', namespace, 'pods', name, 'log'],
        query,
      }),
    execSync: async (op, { namespace, name, ...body }) => {
      const path = [...BASE, 'namespaces', namespace, 'pods', name, 'exec'];
      const answer = await connection.ask<{ exitCode: number; stdout: string; stderr: string }>(op, {
        method: 'POST',
        path,
        body,
      });
      const { exitCode, stdout, stderr } = answer.body;
      return { exitCode, stdout: Buffer.from(stdout, 'base64'), stderr: Buffer.from(stderr, 'base64') };
    },
    explain: async (op, { namespace, name, uid }) => {
      const path = [...BASE, 'namespaces', namespace, 'pods', name, 'explain'];
      return (await connection.ask<Explanation>(op, { method: 'GET', path, query: { uid } })).body;
    },
    explainContainer: async (op, { namespace, container }) => {
      const path = [...BASE, 'namespaces', namespace, 'explain'];
      return (await connection.ask<Explanation>(op, { method: 'GET', path, query: { container } })).body;
    },
    doctor: async (op, body) =>
      (await connection.ask<DoctorReport>(op, { method: 'POST', path: [...BASE, 'doctor'], body })).body,
    stop: async (op, body) =>
      (await connection.ask<StopOutcome>(op, { method: 'POST', path: [...BASE, 'stop'], body })).body,
    listImages: async (op) => {
      const { body } = await connection.ask<{ items: ImageSummary[] }>(op, {
        method: 'GET',
        path: [...BASE, 'images'],
      });
      return body.items;
    },
    pullImage: (op, body) => progress(connection, op, { method: 'POST', path: [...BASE, 'images', 'pull'], body }),
    importImage: (op, body) => progress(connection, op, { method: 'POST', path: [...BASE, 'images', 'import'], body }),
    removeImage: async (op, reference) => {
      const request: HttpRequest = { method: 'DELETE', path: [...BASE, 'images'], query: { reference } };
      return (await connection.ask<{ removed: string[] }>(op, request)).body.removed;
    },
  };
}

async function* progress(
  connection: HttpConnection,
  op: Op,
  request: HttpRequest,
): AsyncGenerator<ImageProgress, void, undefined> {
  for await (const line of jsonLines(connection.stream(op, request))) {
    const item = line as ImageProgress | { kind: 'error'; status: Status };
    if (item.kind === 'error') throw errorOfStatus(item.status);
    yield item;
  }
}
