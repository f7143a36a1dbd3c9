import type { InspectorSubject, PendingItem } from '../../cri/inspector/inspector.ts';
import type { JournalSubject } from '../../journal/journal.ts';
import { subjectOf, subjectOfId } from '../container/subject.ts';
import type { RuntimeContext } from '../context.ts';
import { containerOwner, deferredNetworkSubject, parseOwner, sandboxOwner } from '../store/owners.ts';

/** A step that is done by then is not worth a word. */
const STEP_WORTH_TELLING_MS = 1_000;

/** What is on its way or waits to be tried again, of what the subject names; each says what exactly holds it up. */
export function pendingOf(rt: RuntimeContext, wanted: InspectorSubject): PendingItem[] {
  return [...stops(rt), ...steps(rt), ...retries(rt), ...unpersisted(rt)].filter(({ subject }) =>
    matches(subject, wanted),
  );
}

export function matches(subject: JournalSubject, wanted: InspectorSubject): boolean {
  return (Object.keys(wanted) as (keyof InspectorSubject)[]).every(
    (key) => wanted[key] === undefined || subject[key] === wanted[key],
  );
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

/** Steps that take long. One that was tried before is told of with its back-off. */
function steps(rt: RuntimeContext): PendingItem[] {
  const ids = [...rt.sandboxes.list(), ...rt.containers.list()].map(({ meta }) => meta.id);
  return ids.flatMap((id) => {
    const step = longStep(rt, id);
    if (step === undefined || rt.retries.has(id)) return [];
    return [
      {
        subject: subjectOfId(rt, id),
        kind: 'step',
        key: id,
        message: `${step.name}: ${step.waits}`,
        sinceWallMs: rt.clock.wallMs() - (rt.clock.monotonicMs() - step.sinceMs),
        attempts: 0,
        blockers: [],
      },
    ];
  });
}

function longStep(rt: RuntimeContext, id: string): { name: string; sinceMs: number; waits: string } | undefined {
  const { running } = rt.lanes.view(id);
  const nowMs = rt.clock.monotonicMs();
  if (running === undefined || nowMs - running.sinceMs < STEP_WORTH_TELLING_MS) return undefined;
  const waits = running.waits.map(({ what, sinceMs }) => `${what} (${String(Math.round((nowMs - sinceMs) / 1000))} s)`);
  const { name, sinceMs } = running;
  return { name, sinceMs, waits: waits.length === 0 ? 'under way' : `waiting for ${waits.join(', ')}` };
}

function retries(rt: RuntimeContext): PendingItem[] {
  return rt.retries.view().map((view) => {
    return {
      subject: subjectOfWork(rt, view.id),
      kind: view.events.join(', ') || 'cleanup',
      key: view.id,
      message: `not finished${holdUps(rt, view.id)}`,
      sinceWallMs: view.sinceWallMs,
      attempts: view.attempts,
      lastError: view.lastError,
      ...(view.nextTryWallMs === undefined ? {} : { nextAttemptWallMs: view.nextTryWallMs }),
      blockers: [],
    };
  });
}

/** What work that failed is at now, if that takes long, and what it still holds: to be put behind a sentence. */
export function holdUps(rt: RuntimeContext, id: string): string {
  const left = [id, containerOwner(id), sandboxOwner(id)]
    .flatMap((owner) => rt.ledger.entriesOf(owner))
    .map((entry) => `${entry.kind} ${entry.key}`);
  const step = longStep(rt, id);
  const now = step === undefined ? '' : ` (${step.name}: ${step.waits})`;
  return `${now}${left.length === 0 ? '' : `; still held: ${left.join(', ')}`}`;
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

function subjectOfWork(rt: RuntimeContext, id: string): JournalSubject {
  return parseOwner(id)?.kind === 'network' ? deferredNetworkSubject(rt.ledger, id) : subjectOfId(rt, id);
}
