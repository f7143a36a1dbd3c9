import { detached, type Op } from '../../lib/abort.ts';
import { joinErrors, messageOf } from '../../lib/errors.ts';
import type { RuntimeContext } from '../context.ts';
import { containerOwner } from '../store/owners.ts';

const UNDO_TIMEOUT_MS = 60_000;

/** Undoes a create that failed with `error`; what cannot be undone now is tried again in the background. Never throws. */
export async function undoCreate(rt: RuntimeContext, id: string, error: unknown): Promise<void> {
  try {
    await rt.faults.reach('undo-create/begun');
    await detached(rt.log, rt.clock, UNDO_TIMEOUT_MS, `undoing the create of ${id}`, (op) =>
      rollBackContainer(op, rt, id),
    );
  } catch (undoError) {
    rt.log.warn({ containerId: id, error: messageOf(error) }, 'a create that failed is not undone yet');
    rt.retries.fail(id, { kind: 'rollback', of: 'container' }, undoError);
  }
}

/** Releases everything that a half-made container holds, then forgets it. Throws while something is left. */
export async function rollBackContainer(op: Op, rt: RuntimeContext, id: string): Promise<void> {
  const failures = await rt.ledger.release(op, containerOwner(id), rt.releasers);
  if (failures.length > 0) throw joinErrors(failures.map((failure) => failure.error));
  await rt.faults.reach('undo-create/released');
  const record = rt.containers.get(id);
  if (record === undefined) return;
  await rt.containers.remove(id);
  await rt.faults.reach('undo-create/forgotten');
  rt.containerNames.release(record.meta.facts.name, id);
}
