import type { Op } from '../../lib/abort.ts';
import { messageOf, unavailable } from '../../lib/errors.ts';
import type { RuntimeContext } from '../context.ts';
import { endCheckpoint } from '../container/checkpoint-container.ts';
import { hasLeftovers, releaseAfterExit } from '../container/clean-up-container.ts';
import { armExit, lookAtTask } from '../container/start-outcome.ts';
import { canStart, taskOf, transition, type ContainerEvent } from '../container/state.ts';
import { driveStop } from '../container/stop-container.ts';
import { subjectOf } from '../container/subject.ts';
import { rollBackContainer } from '../container/undo-create.ts';
import { endContainerLimitsChange } from '../container/update-resources.ts';
import { correctExit, recordExit } from '../events/record-exit.ts';
import type { ContainerRecord } from '../store/container-record.ts';
import { restoreContainerLedger } from './restore-ledger.ts';
import { decideContainer, isOfBoot, type ContainerFound } from './decide-container.ts';

/** Linux reports start times in ticks of 1/100 s to user space, on every architecture. */
const TICK_MS = 10;

/**
 * So long a container whose start was cut short stays CREATED, for a caller that repeats its call. kubelet does not, and takes
 * no notice of a CREATED init container ever after (FAILURES.md row 16): then it is EXITED. Each restart of ours within that time begins
 * it anew.
 */
const START_AGAIN_MS = 10_000;

/** Brings one container's record in line with the world. Runs in the container's lane; writes no disk unless it must. */
export async function recoverContainer(op: Op, rt: RuntimeContext, id: string): Promise<void> {
  const record = rt.containers.get(id);
  if (record === undefined) return;
  const decision = decideContainer(record.status, await look(op, rt, record));
  await rt.faults.reach('recovery/container-looked');
  const task = taskOf(record.status);
  // The look has it watched. What is taken away from now on, here or by whoever comes if this fails, is nobody's exit.
  if (decision.kind === 'undo-start') rt.exits.letGo(id);
  await restoreContainerLedger(rt, record);
  await endCheckpoint(op, rt, id);
  switch (decision.kind) {
    case 'keep':
      // Undone by an earlier process, which did not live long enough to give it up.
      if (record.status.startUndone === true) giveUpStartLater(rt, id);
      return;
    case 'roll-back':
      await rollBackContainer(op, rt, id);
      await rt.faults.reach('recovery/container-rolled-back');
      return;
    case 'undo-start':
      // Killed halfway we would find a start that was released and no process, which looks as if the command had run. So a disk that takes
      // nothing keeps this waiting: its process waits, too, and a stop or a removal does not need it.
      await rt.containers.update(id, (status) => transition(status, { kind: 'start-undoing' }));
      await rt.faults.reach('recovery/start-undoing');
      await releaseAfterExit(op, rt, id);
      await rt.faults.reach('recovery/start-cleaned-up');
      // Deleting a task that never ran leaves a number: it is nobody's exit code.
      await rt.tasks.forgetExit(id);
      await rt.faults.reach('recovery/start-released');
      change(rt, id, { kind: 'start-undone' });
      rt.faults.pass('recovery/start-undone');
      giveUpStartLater(rt, id);
      note(rt, record, 'container.start-undone', 'its start was cut short and undone');
      return;
    case 'adopt':
      change(rt, id, { kind: 'started', startedAtWallMs: decision.startedAtWallMs });
      rt.faults.pass('recovery/start-adopted');
      if (task !== undefined) armExit(rt, task);
      note(rt, record, 'container.adopted', 'its start was carried out');
      return;
    case 'watch':
      change(rt, id, { kind: 'verified' });
      if (task !== undefined) armExit(rt, task);
      rt.faults.pass('recovery/watched');
      await endContainerLimitsChange(rt, id).catch((error: unknown) => {
        // It stays in the record: the next update, or the next start, takes it up.
        rt.log.warn(
          { containerId: id, error: messageOf(error) },
          'an update of its resources that was cut short is not ended',
        );
      });
      return;
    case 'exited':
      recordExit(rt, id, decision.exit);
      return;
    case 'correct':
      correctExit(rt, id, decision.exit);
      return;
    case 'look-again':
    case 'lose-sight':
      throw unavailable(`container ${id}: ${decision.why}`);
  }
}

/**
 * The look has failed again, or takes too long: what ran is UNKNOWN until one is answered. Not after the first look: kubelet kills and
 * makes anew what it sees as UNKNOWN, and the second often finds it alive.
 */
export function loseSight(rt: RuntimeContext, id: string, why: string): void {
  if (rt.containers.get(id)?.status.state.kind !== 'running') return;
  change(rt, id, { kind: 'lost-sight', why, atWallMs: rt.clock.wallMs() });
}

/** What an earlier process was asked for and had not finished. */
export function resumeContainer(rt: RuntimeContext, id: string): void {
  const status = rt.containers.get(id)?.status;
  if (status === undefined) return;
  if (status.removing !== undefined) void rt.retries.attempt(id, { kind: 'container-removal' });
  else if (status.state.kind === 'exited' && hasLeftovers(rt, id)) {
    void rt.retries.attempt(id, { kind: 'container-cleanup' });
  }
  // The deadline is CLOCK_BOOTTIME: it went on while we were away.
  if (status.stop !== undefined && status.state.kind !== 'exited') driveStop(rt, id);
}

function giveUpStartLater(rt: RuntimeContext, id: string): void {
  rt.clock.after(START_AGAIN_MS, () => {
    const status = rt.containers.get(id)?.status;
    if (status?.startUndone !== true || !canStart(status)) return;
    const message =
      'its start was cut short by a restart of gantryd, or by an OCI runtime that did not answer, and not asked for again';
    change(rt, id, { kind: 'start-failed', message, atWallMs: rt.clock.wallMs() });
  });
}

function change(rt: RuntimeContext, id: string, event: ContainerEvent): void {
  rt.containers.publishFirst(id, (status) => transition(status, event));
}

function note(rt: RuntimeContext, { meta }: ContainerRecord, what: string, message: string): void {
  rt.journal.record({
    subject: subjectOf(rt, meta),
    what,
    message,
    why: 'gantryd was restarted, or the OCI runtime did not answer',
  });
}

async function look(op: Op, rt: RuntimeContext, { meta, status }: ContainerRecord): Promise<ContainerFound> {
  const { clock } = rt;
  const bootedAtWallMs = clock.wallMs() - clock.boottimeMs();
  const sameBoot = isOfBoot(status, rt.bootId);
  const exit = await rt.tasks.readExit(meta.id);
  const base = { sameBoot, bootedAtWallMs, ...(exit === undefined ? {} : { exit }) };
  const task = taskOf(status);
  if (task === undefined || !sameBoot) return { ...base, process: 'none' };
  const found = await lookAtTask(op, rt, task, status.start?.phase === 'released');
  if (found.process !== 'alive') return { ...base, ...found };
  return { ...base, ...found, processStartedAtWallMs: bootedAtWallMs + task.startTimeTicks * TICK_MS };
}
