import { detached, type Op } from '../../lib/abort.ts';
import { joinErrors, messageOf } from '../../lib/errors.ts';
import type { RuntimeContext } from '../context.ts';
import { sandboxOwner } from '../store/owners.ts';
import { sandboxSubject } from '../store/sandbox-record.ts';
import { transition } from './state.ts';

/** Undoing has a time of its own: the caller's may have run out, which is often why there is something to undo. */
const UNDO_TIMEOUT_MS = 90_000;

/**
 * Undoes a run that failed with `error`. What cannot be undone now keeps the sandbox, NOTREADY and under its name, so that
 * Stop and Remove can finish it; we try again ourselves, too. Never throws.
 */
export async function undoRun(rt: RuntimeContext, id: string, error: unknown): Promise<void> {
  try {
    await rt.faults.reach('undo-run/begun');
    await detached(rt.log, rt.clock, UNDO_TIMEOUT_MS, `undoing the run of ${id}`, (op) => rollBackSandbox(op, rt, id));
  } catch (undoError) {
    const why = `could not be made (${messageOf(error)}), and undoing that is not finished`;
    rt.sandboxes.publishFirst(id, (status) =>
      transition(status, { kind: 'not-ready', why, atWallMs: rt.clock.wallMs() }),
    );
    rt.retries.fail(id, { kind: 'rollback', of: 'sandbox' }, undoError);
  }
}

/** Releases everything that the sandbox holds, then forgets it. Throws while something is left. */
export async function rollBackSandbox(op: Op, rt: RuntimeContext, id: string): Promise<void> {
  const owner = sandboxOwner(id);
  let failures = await rt.ledger.release(op, owner, rt.releasers);
  // The network goes before its namespace, and without that a plug-in that has failed may have nothing to do any more.
  if (failures.length > 0 && failures.every(({ entry }) => entry.kind === 'cni')) {
    failures = await rt.ledger.release(op, owner, rt.releasers, ['cni']);
  }
  if (failures.length > 0) throw joinErrors(failures.map((failure) => failure.error));
  await rt.faults.reach('undo-run/released');
  rt.exits.letGo(id);
  await rt.tasks.forgetExit(id);
  const record = rt.sandboxes.get(id);
  if (record === undefined) return;
  await rt.sandboxes.remove(id);
  await rt.faults.reach('undo-run/forgotten');
  rt.sandboxNames.release(record.meta.facts.name, id);
  rt.journal.record({
    subject: sandboxSubject(record.meta),
    what: 'sandbox.undone',
    message: 'a sandbox that could not be made was undone',
    outcome: 'ok',
  });
}
