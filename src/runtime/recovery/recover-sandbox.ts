import type { Op } from '../../lib/abort.ts';
import { messageOf } from '../../lib/errors.ts';
import type { RuntimeContext } from '../context.ts';
import { rollBackSandbox } from '../sandbox/undo-run.ts';
import { transition } from '../sandbox/state.ts';
import { endSandboxLimitsChange } from '../sandbox/update-sandbox-resources.ts';
import { sandboxOwner } from '../store/owners.ts';
import { sandboxSubject } from '../store/sandbox-record.ts';
import { decideSandbox } from './decide-sandbox.ts';
import { restoreSandboxLedger } from './restore-ledger.ts';
import { lookAtSandbox } from './look-at-sandbox.ts';

/** Brings one sandbox's record in line with the world, then lets what was on its way go on. Runs in the sandbox's lane. */
export async function recoverSandbox(op: Op, rt: RuntimeContext, id: string): Promise<void> {
  const record = rt.sandboxes.get(id);
  if (record === undefined) return;
  const decision = decideSandbox(record.status, await lookAtSandbox(rt, record));
  await rt.faults.reach('recovery/sandbox-looked');
  // Before anything is released: a sandbox that is not READY any more, or never was, holds things as well.
  await restoreSandboxLedger(op, rt, record);
  if (record.status.bootId !== rt.bootId) {
    // The state folder went with the boot; where it is on a disk, nobody uses what is in it any more. What fails is in the log, and stays.
    await rt.ledger.release(op, sandboxOwner(id), rt.releasers, ['directory']);
  }
  switch (decision.kind) {
    case 'roll-back':
      await rollBackSandbox(op, rt, id);
      await rt.faults.reach('recovery/sandbox-rolled-back');
      return;
    case 'not-ready':
      markNotReady(rt, id, decision.why);
      rt.faults.pass('recovery/sandbox-not-ready');
      break;
    case 'keep':
      if (record.status.state.kind !== 'ready') break;
      await endSandboxLimitsChange(rt, id).catch((error: unknown) => {
        rt.log.warn(
          { sandboxId: id, error: messageOf(error) },
          'an update of its resources that was cut short is not ended',
        );
      });
      if (record.status.infra !== undefined) rt.exits.arm({ ...record.status.infra, weSentKill: () => true });
      rt.faults.pass('recovery/sandbox-kept');
      break;
  }
}

export function markNotReady(rt: RuntimeContext, id: string, why: string): void {
  const record = rt.sandboxes.get(id);
  if (record?.status.state.kind !== 'ready') return;
  rt.sandboxes.publishFirst(id, (status) =>
    transition(status, { kind: 'not-ready', why, atWallMs: rt.clock.wallMs() }),
  );
  rt.journal.record({
    subject: sandboxSubject(record.meta),
    what: 'sandbox.not-ready',
    message: 'sandbox is not ready any more',
    why,
    outcome: 'failed',
  });
}

/** What an earlier process was asked for and had not finished: to be started once the lane is free again. */
export function resumeSandbox(rt: RuntimeContext, id: string): void {
  const status = rt.sandboxes.get(id)?.status;
  if (status === undefined) return;
  if (status.removing !== undefined) void rt.retries.attempt(id, { kind: 'sandbox-removal' });
  else if (status.stopped !== true && (status.stopping !== undefined || status.bootId !== rt.bootId)) {
    // Of another boot: its containers are gone, its addresses are not (FAILURES.md row 39).
    void rt.retries.attempt(id, { kind: 'sandbox-release' });
  }
}
