import type { StopContainerRequest, StopContainerResponse } from '../../cri/gen/api.ts';
import { withDeadline, type Op } from '../../lib/abort.ts';
import { deadlineExceeded, GantryError, isKind, messageOf } from '../../lib/errors.ts';
import { SIGKILL, signalName } from '../../linux/signals.ts';
import type { RuntimeContext } from '../context.ts';
import { MAKING_STEPS } from '../making-steps.ts';
import type { ContainerRecord } from '../store/container-record.ts';
import { cleanUpContainer } from './clean-up-container.ts';
import { durably } from './durably.ts';
import { mayHaveProcess, taskOf, transition, type StopIntent } from './state.ts';
import { mergeStop, planStop } from './stop-plan.ts';
import { subjectOf } from './subject.ts';
import { describeSurvivors } from './survivors.ts';

/** A step asks the kernel for one thing; only a pidfd or cgroup of a machine in trouble takes longer. */
const STEP_TIMEOUT_MS = 10_000;
/** So long after the deadline a caller is kept waiting for a process that SIGKILL does not end. */
const AFTER_KILL_WAIT_MS = 30_000;
const STEP_RETRY_MS = 1_000;
const KILL_ALL_WAIT_MS = 500;

/**
 * Sends the stop signal, and SIGKILL when `timeout` seconds have passed (0: SIGKILL at once). The intent is durable: it is carried
 * out even if the caller leaves or we are restarted. A later call with an earlier deadline shortens it, never the other way.
 * A container that does not run, or is unknown, is stopped (CRI: idempotent).
 * Throws DeadlineExceeded, naming what is left and what it waits in, when SIGKILL has not ended it.
 */
export async function stopContainer(
  op: Op,
  rt: RuntimeContext,
  { containerId, timeout }: StopContainerRequest,
): Promise<StopContainerResponse> {
  const id = rt.containers.resolve(containerId);
  const graceMs = Math.max(Number(timeout), 0) * 1000;
  if (id !== undefined) await stopAsOrdered(op, rt, { id, graceMs, reason: 'StopContainer was called' });
  return {};
}

export interface StopOrder {
  /** Full id. */
  readonly id: string;
  readonly graceMs: number;
  /** Number of the signal to send instead of the container's own. */
  readonly signal?: number;
  readonly reason: string;
}

/** As {@link stopContainer}, for callers that say why and may choose the signal, which CRI has no field for. */
export async function stopAsOrdered(op: Op, rt: RuntimeContext, order: StopOrder): Promise<void> {
  const { id } = order;
  const stop = await requestStop(rt, order);
  if (stop === undefined) return;
  const waitMs = Math.max(stop.deadlineBoottimeMs - rt.clock.boottimeMs(), 0) + AFTER_KILL_WAIT_MS;
  try {
    await withDeadline(op, rt.clock, waitMs, `stopping container ${id}`, (waitOp) =>
      rt.containers.waitFor(waitOp, id, (status) => status === undefined || !mayHaveProcess(status)),
    );
    await rt.faults.reach('stop-container/ended');
  } catch (error) {
    const blocked = rt.containers.get(id)?.status.stop?.blocked;
    if (!isKind(error, 'DeadlineExceeded') || blocked === undefined) throw error;
    throw deadlineExceeded(`container ${id} does not end: ${blocked}`, { details: { reason: 'StopBlocked' } });
  }
}

/** Kills at once and returns when nothing of the container runs any more. */
export async function endContainer(op: Op, rt: RuntimeContext, id: string, reason: string): Promise<void> {
  await stopAsOrdered(op, rt, { id, graceMs: 0, reason });
  const record = rt.containers.get(id);
  if (record === undefined) return;
  try {
    await cleanUpContainer(rt, id);
  } catch (error) {
    // What is left may be a mount or a file: that holds nobody up but this container's removal.
    const left = await rt.cgroups.procs(record.meta.facts.cgroupPath, true);
    if (left.length > 0) throw error;
    if (!rt.retries.has(id)) rt.retries.fail(id, { kind: 'container-cleanup' }, error);
  }
}

/** Notes the intent and makes its first step happen. Undefined when there is nothing to stop. */
async function requestStop(
  rt: RuntimeContext,
  { id, graceMs, signal, reason }: StopOrder,
): Promise<StopIntent | undefined> {
  const record = rt.containers.get(id);
  if (record === undefined || !mayHaveProcess(record.status)) return undefined;
  const request = { graceMs, signal: signal ?? record.meta.facts.stopSignal, reason };
  await rt.faults.reach('stop-container/asked');
  try {
    const before = record.status.stop;
    const { stop } = await durably(rt.containers, id, (status) => {
      if (!mayHaveProcess(status)) return status;
      const now = { boottimeMs: rt.clock.boottimeMs(), wallMs: rt.clock.wallMs(), bootId: rt.bootId };
      const merged = mergeStop(status.stop, request, now);
      return merged === status.stop ? status : transition(status, { kind: 'stop-changed', stop: merged });
    });
    await rt.faults.reach('stop-container/intended');
    if (stop !== before) {
      const message =
        before === undefined ? `stop asked for, with a grace of ${String(graceMs / 1000)} s` : 'stop brought forward';
      rt.journal.record({ subject: subjectOf(rt, record.meta), what: 'container.stop', message, why: reason });
    }
    // A start that hangs must not hold its own end up.
    if (rt.containers.get(id)?.status.start !== undefined) rt.lanes.abortRunning(id, MAKING_STEPS.start, reason);
    driveStop(rt, id);
    return stop;
  } catch (error) {
    if (isKind(error, 'NotFound')) return undefined;
    throw error;
  }
}

/** Has the next step of a container's stop done in its lane. Called by the request, the timer and recovery. */
export function driveStop(rt: RuntimeContext, id: string): void {
  const run = (op: Op): Promise<void> => stopStep(op, rt, id);
  rt.lanes.enqueue(id, { name: 'stop the container', timeoutMs: STEP_TIMEOUT_MS, run }).catch((error: unknown) => {
    rt.log.warn({ containerId: id, error: messageOf(error) }, 'a stop step failed, trying again');
    rt.stops.planAt(id, rt.clock.boottimeMs() + STEP_RETRY_MS, () => driveStop(rt, id));
  });
}

async function stopStep(op: Op, rt: RuntimeContext, id: string): Promise<void> {
  for (;;) {
    const record = rt.containers.get(id);
    const stop = record?.status.stop;
    if (record === undefined || stop === undefined || !mayHaveProcess(record.status) || stop.bootId !== rt.bootId)
      return;
    const step = planStop(stop, rt.clock.boottimeMs());
    switch (step.kind) {
      case 'wait':
        rt.stops.planAt(id, step.untilBoottimeMs, () => driveStop(rt, id));
        return;
      case 'signal':
        await sendStopSignal(op, rt, id, stop.signal);
        break;
      case 'kill':
        await kill(op, rt, id, stop);
        break;
    }
  }
}

/** What has been done is true whether or not the disk takes it: no step waits for that. */
function changeStop(rt: RuntimeContext, id: string, change: (stop: StopIntent) => StopIntent): void {
  rt.containers.publishFirst(id, (status) =>
    status.stop === undefined ? status : transition(status, { kind: 'stop-changed', stop: change(status.stop) }),
  );
}

async function sendStopSignal(op: Op, rt: RuntimeContext, id: string, signal: number): Promise<void> {
  const record = rt.containers.must(id);
  const task = taskOf(record.status);
  const subject = subjectOf(rt, record.meta);
  const boottimeMs = rt.clock.boottimeMs();
  try {
    if (task === undefined) throw new GantryError('FailedPrecondition', 'its process is not known');
    const sent = await rt.tasks.signal(op, task, signal);
    await rt.faults.reach('stop-container/signalled');
    await thaw(op, rt, record);
    await rt.faults.reach('stop-container/thawed');
    if (!sent) rt.exits.look();
    rt.journal.record({ subject, what: 'container.signal', message: `${signalName(signal)} sent`, outcome: 'ok' });
    changeStop(rt, id, (stop) => ({ ...stop, signalSentBoottimeMs: boottimeMs }));
    await rt.faults.reach('stop-container/signal-noted');
  } catch (error) {
    const message = `${signalName(signal)} could not be sent: ${messageOf(error)}`;
    rt.journal.record({ subject, what: 'container.signal', message, outcome: 'failed' });
    changeStop(rt, id, (stop) => ({ ...stop, signalFailedBoottimeMs: boottimeMs }));
  }
}

/** Signal first, then thaw: a frozen process acts on it when it is thawed. That it cannot be is only told (BEHAVIOUR.md 91). */
async function thaw(op: Op, rt: RuntimeContext, { meta }: ContainerRecord): Promise<void> {
  try {
    await rt.cgroups.thaw(op, meta.facts.cgroupPath);
  } catch (error) {
    const message = `whether it was paused and could be thawed is not known: ${messageOf(error)}`;
    rt.journal.record({ subject: subjectOf(rt, meta), what: 'container.thaw', message, outcome: 'failed' });
  }
}

async function kill(op: Op, rt: RuntimeContext, id: string, stop: StopIntent): Promise<void> {
  const record = rt.containers.must(id);
  const { cgroupPath } = record.meta.facts;
  const subject = subjectOf(rt, record.meta);
  const blocked = stop.kills === 0 ? undefined : await describeSurvivors(rt, record);
  // Noted before it is sent: an out-of-memory kill must not be blamed for what we do (FAILURES.md row 32).
  changeStop(rt, id, (present) => ({
    ...present,
    kills: present.kills + 1,
    lastKillBoottimeMs: rt.clock.boottimeMs(),
    blocked,
  }));
  if (blocked !== undefined && blocked !== stop.blocked) {
    rt.journal.record({
      subject,
      what: 'container.stop-blocked',
      message: `SIGKILL has not ended it: ${blocked}`,
      outcome: 'blocked',
    });
  } else if (stop.kills === 0) {
    const why = stop.signalSentBoottimeMs === undefined ? stop.reason : 'its grace period is over';
    rt.journal.record({ subject, what: 'container.kill', message: 'SIGKILL sent to everything in it', why });
  }
  await rt.faults.reach('stop-container/kill-noted');
  const task = taskOf(record.status);
  if (task !== undefined) await rt.tasks.signal(op, task, SIGKILL);
  try {
    // No lane is held for a process that does not die: the timer comes back to it.
    await withDeadline(op, rt.clock, KILL_ALL_WAIT_MS, `killing everything in ${cgroupPath}`, (killOp) =>
      rt.cgroups.killAll(killOp, cgroupPath),
    );
  } catch (error) {
    if (!isKind(error, 'DeadlineExceeded')) throw error;
  }
  await rt.faults.reach('stop-container/killed');
  rt.exits.look();
}
