import type { ExplainQuestion, Inspector, InspectorSubject } from '../../cri/inspector/inspector.ts';
import { raceSignal } from '../../lib/abort.ts';
import { consult, type Examiner } from '../../lib/doctor.ts';
import type { ObjectState } from '../../lib/object-state.ts';
import type { JournalReader, JournalSubject } from '../../journal/journal.ts';
import type { RuntimeContext } from '../context.ts';
import type { ImageStore } from '../image/image-store.ts';
import { importImages } from './import-request.ts';
import { subjectOfContainer } from './name-container.ts';
import { objectStates } from './object-states.ts';
import { matches, pendingOf } from './pending-items.ts';

export interface InspectorDeps {
  readonly rt: RuntimeContext;
  readonly journal: JournalReader;
  readonly images: Pick<ImageStore, 'import'>;
  readonly ociRuntime: string;
  readonly startedAtWallMs: number;
  readonly recovered: Promise<void>;
  /** Who is asked by the doctor. */
  examiners(): readonly Examiner[];
}

/** Answers what has happened to a pod and why, and what is still to be done: from the journal, the records and the retry queue. */
export function createInspector(deps: InspectorDeps): Inspector {
  const { rt, journal, ociRuntime, startedAtWallMs } = deps;
  return {
    version: () =>
      Promise.resolve({
        version: rt.settings.version,
        instanceId: rt.settings.instance,
        pid: process.pid,
        startedAtWallMs,
        bootId: rt.bootId,
        nodeVersion: process.version,
        ociRuntime,
        root: rt.settings.root,
        state: rt.settings.state,
      }),
    explain: async (_op, { subject, container, limit }: ExplainQuestion) => {
      const states = objectStates(rt);
      const whole =
        container === undefined
          ? withFullIds(rt, subject)
          : await subjectOfContainer(container, subject.podNamespace, states, journal);
      return {
        entries: await journal.query(whole, limit),
        pending: pendingOf(rt, whole),
        objects: states.filter((state) => matches(subjectOfState(state), whole)),
      };
    },
    doctor: async (op, { fix }) => {
      // What recovery is still to release is no finding.
      await raceSignal(deps.recovered, op.signal);
      return await consult(op, {
        instanceId: rt.settings.instance,
        examiners: deps.examiners(),
        clock: rt.clock,
        fix,
      });
    },
    importImages: async (op, request) => {
      const images = await importImages(op, deps.images, request);
      return images.map(({ id, repoTags, repoDigests, sizeBytes }) => {
        return { id, tags: repoTags, digests: repoDigests, sizeBytes };
      });
    },
    pendingWork: (_op, subject) =>
      Promise.resolve(pendingOf(rt, subject === undefined ? {} : withFullIds(rt, subject))),
  };
}

/** People type the first digits of an id. */
function withFullIds(rt: RuntimeContext, subject: InspectorSubject): InspectorSubject {
  const container = subject.containerId === undefined ? undefined : rt.containers.resolve(subject.containerId);
  const sandbox = subject.sandboxId === undefined ? undefined : rt.sandboxes.resolve(subject.sandboxId);
  return {
    ...subject,
    ...(container === undefined ? {} : { containerId: container }),
    ...(sandbox === undefined ? {} : { sandboxId: sandbox }),
  };
}

function subjectOfState({ kind, id, name, podName, podNamespace, podUid }: ObjectState): JournalSubject {
  return {
    ...(podName === undefined ? {} : { podName }),
    ...(podNamespace === undefined ? {} : { podNamespace }),
    ...(podUid === undefined ? {} : { podUid }),
    ...(kind === 'container' ? { containerId: id, containerName: name } : { sandboxId: id }),
  };
}
