import { isAbsolute } from 'node:path';
import { invalidArgument } from '../../lib/errors.ts';
import type { CriConnection } from '../client.ts';
import type { ExtraService } from '../rpc.ts';
import { rpcService } from '../rpc.ts';
import { InspectorService } from './gen/inspector.ts';
import type { Inspector } from './inspector.ts';
import { reportFromWire, reportToWire } from './doctor-wire.ts';
import {
  entryFromWire,
  entryToWire,
  imageFromWire,
  imageToWire,
  importFromWire,
  importToWire,
  itemFromWire,
  itemToWire,
  objectFromWire,
  objectToWire,
  subjectFromWire,
  subjectToWire,
  versionFromWire,
  versionToWire,
} from './inspector-wire.ts';

/** The server's side: goes into `extraServices` of `serveCri`. */
export function serveInspector(inspector: Inspector): ExtraService {
  return rpcService(InspectorService, {
    version: async (op) => versionToWire(await inspector.version(op)),
    explain: async (op, request) => {
      const subject = subjectFromWire(request.subject);
      if (Object.keys(subject).length === 0 && request.container === '')
        throw invalidArgument('explain: nothing is named to be explained');
      if (request.limit < 0) throw invalidArgument(`explain: limit ${request.limit} is negative`);
      const limit = request.limit === 0 ? {} : { limit: request.limit };
      const container = request.container === '' ? {} : { container: request.container };
      const explanation = await inspector.explain(op, { subject, ...container, ...limit });
      return {
        entries: explanation.entries.map(entryToWire),
        pending: explanation.pending.map(itemToWire),
        objects: explanation.objects.map(objectToWire),
      };
    },
    doctor: async (op, { fix }) => reportToWire(await inspector.doctor(op, { fix })),
    importImages: async (op, request) => {
      if (!isAbsolute(request.path))
        throw invalidArgument(`import: path ${JSON.stringify(request.path)} is not absolute`);
      return { images: (await inspector.importImages(op, importFromWire(request))).map(imageToWire) };
    },
    pendingWork: async (op, request) => {
      const subject = request.subject === undefined ? undefined : subjectFromWire(request.subject);
      return { items: (await inspector.pendingWork(op, subject)).map(itemToWire) };
    },
  });
}

/** The client's side. Another runtime than Gantry answers each question with NotImplemented. */
export function inspectorOf(connection: CriConnection): Inspector {
  const remote = connection.service(InspectorService);
  return {
    version: async (op) => versionFromWire(await remote.version(op, {})),
    explain: async (op, { subject, container, limit }) => {
      const answer = await remote.explain(op, {
        subject: subjectToWire(subject),
        container: container ?? '',
        limit: limit ?? 0,
      });
      return {
        entries: answer.entries.map(entryFromWire),
        pending: answer.pending.map(itemFromWire),
        objects: answer.objects.map(objectFromWire),
      };
    },
    doctor: async (op, { fix }) => reportFromWire(await remote.doctor(op, { fix })),
    importImages: async (op, request) =>
      (await remote.importImages(op, importToWire(request))).images.map(imageFromWire),
    pendingWork: async (op, subject) => {
      const answer = await remote.pendingWork(op, {
        subject: subject === undefined ? undefined : subjectToWire(subject),
      });
      return answer.items.map(itemFromWire);
    },
  };
}
