import type { LedgerItem } from '../../lib/ledger.ts';
import type { RuntimeContext } from '../context.ts';
import { startItems } from '../container/start-container.ts';
import { taskOf } from '../container/state.ts';
import { sandboxItems } from '../sandbox/run-sandbox.ts';
import type { ContainerRecord } from '../store/container-record.ts';
import { containerOwner, sandboxOwner } from '../store/owners.ts';
import type { SandboxRecord } from '../store/sandbox-record.ts';

/**
 * The volatile ledger can be lost or damaged while what it names lives on. What a running container or a READY sandbox holds
 * follows from its record: so it is written down again, or nothing would release it at its end.
 */
export async function restoreContainerLedger(rt: RuntimeContext, { meta, status }: ContainerRecord): Promise<void> {
  const task = taskOf(status);
  if (task === undefined) return;
  const items = startItems(rt, meta).map((item) => (item.kind === 'task' ? { ...item, data: { ...task } } : item));
  await intendMissing(rt, containerOwner(meta.id), items);
}

export async function restoreSandboxLedger(rt: RuntimeContext, { meta, status }: SandboxRecord): Promise<void> {
  const items = sandboxItems(rt, meta).map((item) =>
    item.kind === 'task' && status.infra !== undefined ? { ...item, data: { ...status.infra } } : item,
  );
  await intendMissing(rt, sandboxOwner(meta.id), items);
}

async function intendMissing(rt: RuntimeContext, owner: string, items: readonly LedgerItem[]): Promise<void> {
  const known = rt.ledger.entriesOf(owner);
  const missing = items.filter((item) => !known.some(({ kind, key }) => kind === item.kind && key === item.key));
  if (missing.length === 0) return;
  rt.log.warn({ owner, kinds: missing.map(({ kind }) => kind) }, 'the ledger had lost entries: written down again');
  await rt.ledger.intend(owner, ...missing);
}
