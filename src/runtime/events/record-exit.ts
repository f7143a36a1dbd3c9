import type { ContainerEvent } from '../container/state.ts';
import { transition as containerTransition } from '../container/state.ts';
import { shownExit } from '../container/exit-reason.ts';
import { subjectOf } from '../container/subject.ts';
import { transition as sandboxTransition } from '../sandbox/state.ts';
import type { RuntimeContext } from '../context.ts';
import { sandboxSubject } from '../store/sandbox-record.ts';
import type { ExitStatus } from '../task/exit-status.ts';

/**
 * An exit has been seen: it is visible at once, then persisted, and only then cleaned up after, in the object's own lane
 * (BEHAVIOUR.md G, I; DESIGN.md, idea 2). An id that nobody knows (any more) is ignored.
 */
export function recordExit(rt: RuntimeContext, id: string, exit: ExitStatus): void {
  rt.faults.pass('exit/seen');
  if (rt.containers.get(id) !== undefined) recordContainerExit(rt, id, { kind: 'exited', exit });
  else if (rt.sandboxes.get(id) !== undefined) recordSandboxExit(rt, id);
}

/** The exit file came late: the word that was put in its place is corrected. */
export function correctExit(rt: RuntimeContext, id: string, exit: ExitStatus): void {
  if (rt.containers.get(id) !== undefined) recordContainerExit(rt, id, { kind: 'exit-corrected', exit });
}

function recordContainerExit(rt: RuntimeContext, id: string, event: ContainerEvent & { exit: ExitStatus }): void {
  const before = rt.containers.must(id);
  const status = rt.containers.publishFirst(
    id,
    (present) => containerTransition(present, event),
    () => rt.faults.pass('exit/persisted'),
  );
  if (status?.state.kind !== 'exited' || status === before.status) return;
  rt.faults.pass('exit/published');
  const { exitCode, reason, message } = shownExit(status.state);
  const startedAtWallMs = status.state.startedAtWallMs;
  rt.stops.cancel(id);
  // Before the telling: whatever comes of that, there is no second exit that would begin it.
  void rt.retries.attempt(id, { kind: 'container-cleanup' });
  rt.journal.record({
    subject: subjectOf(rt, before.meta),
    what: event.kind === 'exited' ? 'container.exited' : 'container.exit-corrected',
    message: `ended with ${exitWords(event.exit, exitCode)} (${reason})${message === '' ? '' : `: ${message}`}`,
    ...(before.status.stop === undefined ? {} : { why: before.status.stop.reason }),
    ...(startedAtWallMs === undefined ? {} : { durationMs: status.state.finishedAtWallMs - startedAtWallMs }),
    data: { exit: event.exit },
  });
}

function exitWords(exit: ExitStatus, exitCode: number): string {
  if (exit.kind === 'unknown') return 'an unknown code';
  return exit.signal === undefined
    ? `code ${String(exitCode)}`
    : `code ${String(exitCode)}, signal ${String(exit.signal)}`;
}

/** The process that holds the pod's PID namespace: the kernel ends all others in it with it. */
function recordSandboxExit(rt: RuntimeContext, id: string): void {
  const { meta, status: before } = rt.sandboxes.must(id);
  if (before.state.kind !== 'ready') return;
  const why = 'the process that holds its PID namespace has ended';
  rt.sandboxes.publishFirst(id, (status) =>
    sandboxTransition(status, { kind: 'not-ready', why, atWallMs: rt.clock.wallMs() }),
  );
  const wanted = before.stopping !== undefined;
  rt.journal.record({
    subject: sandboxSubject(meta),
    what: 'sandbox.infra-exited',
    message: why,
    outcome: wanted ? 'ok' : 'failed',
  });
}
