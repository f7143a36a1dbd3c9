import type { ExplainQuestion, Inspector, InspectorSubject, PendingItem } from '../../cri/inspector/inspector.ts';
import { raceSignal } from '../../lib/abort.ts';
import { consult, type Examiner } from '../../lib/doctor.ts';
import type { ObjectState } from '../../lib/object-state.ts';
import type { JournalReader, JournalSubject } from '../../journal/journal.ts';
import { subjectOf } from '../container/subject.ts';
import type { RuntimeContext } from '../context.ts';
import { containerOwner, sandboxOwner } from '../store/owners.ts';
import { subjectOfContainer } from './name-container.ts';
import { objectStates } from './object-states.ts';
import { sandboxSubject } from '../store/sandbox-record.ts';

export interface InspectorDeps {
  readonly rt: RuntimeContext;
  readonly journal: JournalReader;
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

function pendingOf(rt: RuntimeContext, wanted: InspectorSubject): PendingItem[] {
  return [...stops(rt), ...retries(rt), ...unpersisted(rt)].filter((item) => matches(item.subject, wanted));
}

function matches(subject: JournalSubject, wanted: InspectorSubject): boolean {
  return (Object.keys(wanted) as (keyof InspectorSubject)[]).every(
    (key) => wanted[key] === undefined || subject[key] === wanted[key],
  );
}

function subjectOfState({ kind, id, name, podName, podNamespace, podUid }: ObjectState): JournalSubject {
  return {
    ...(podName === undefined ? {} : { podName }),
    ...(podNamespace === undefined ? {} : { podNamespace }),
    ...(podUid === undefined ? {} : { podUid }),
    ...(kind === 'container' ? { containerId: id, containerName: name } : { sandboxId: id }),
  };
}

function stops(rt: RuntimeContext): PendingItem[] {
  return rt.containers.list().flatMap(({ meta, status }) => {
    const { stop } = status;
    if (stop === undefined || status.state.kind === 'exited') return [];
    const restMs = Math.max(stop.deadlineBoottimeMs - rt.clock.boottimeMs(), 0);
    const sent = stop.signalSentBoottimeMs === undefined ? 'stop signal not sent yet' : 'stop signal sent';
    const message =
      stop.blocked === undefined
        ? `stopping: ${sent}, SIGKILL in ${String(Math.ceil(restMs / 1000))} s`
        : `SIGKILL has not ended it: ${stop.blocked}`;
    return [
      {
        subject: subjectOf(rt, meta),
        kind: 'stop',
        key: meta.id,
        message,
        sinceWallMs: stop.requestedAtWallMs,
        attempts: stop.kills,
        blockers: [],
      },
    ];
  });
}

function retries(rt: RuntimeContext): PendingItem[] {
  return rt.retries.view().map((view) => {
    const left = [view.id, containerOwner(view.id), sandboxOwner(view.id)]
      .flatMap((owner) => rt.ledger.entriesOf(owner))
      .map((entry) => `${entry.kind} ${entry.key}`);
    return {
      subject: subjectOfId(rt, view.id),
      kind: view.events.join(', ') || 'cleanup',
      key: view.id,
      message: left.length === 0 ? 'not finished' : `not finished; still held: ${left.join(', ')}`,
      sinceWallMs: view.sinceWallMs,
      attempts: view.attempts,
      lastError: view.lastError,
      ...(view.nextTryWallMs === undefined ? {} : { nextAttemptWallMs: view.nextTryWallMs }),
      blockers: [],
    };
  });
}

function unpersisted(rt: RuntimeContext): PendingItem[] {
  return [...rt.containers.unpersisted, ...rt.sandboxes.unpersisted].map((id) => ({
    subject: subjectOfId(rt, id),
    kind: 'persist',
    key: id,
    message: 'its latest status is not on disk yet',
    sinceWallMs: rt.clock.wallMs(),
    attempts: 0,
    blockers: [],
  }));
}

function subjectOfId(rt: RuntimeContext, id: string): JournalSubject {
  const container = rt.containers.get(id);
  if (container !== undefined) return subjectOf(rt, container.meta);
  const sandbox = rt.sandboxes.get(id);
  return sandbox === undefined ? {} : sandboxSubject(sandbox.meta);
}
