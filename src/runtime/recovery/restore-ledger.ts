import type { Op } from '../../lib/abort.ts';
import { messageOf } from '../../lib/errors.ts';
import type { LedgerItem } from '../../lib/ledger.ts';
import type { RuntimeContext } from '../context.ts';
import { volumeSnapshots } from '../container/image-volumes.ts';
import { startItems } from '../container/start-container.ts';
import { taskOf } from '../container/state.ts';
import { networkRequestOf } from '../sandbox/network-request.ts';
import { sandboxItems } from '../sandbox/run-sandbox.ts';
import type { ContainerRecord } from '../store/container-record.ts';
import { containerOwner, sandboxOwner } from '../store/owners.ts';
import type { SandboxRecord } from '../store/sandbox-record.ts';
import { isOfBoot } from './decide-container.ts';

/** What a stopped sandbox has until it is removed. */
const KEPT_BY_STOPPED: readonly string[] = ['cgroup', 'directory'];

/**
 * The ledger can be lost or damaged while what it names lives on. What a container with a process holds follows from its record, and so
 * does what a row named that could not be read: it is written down again, or nothing would release it at its end.
 */
export async function restoreContainerLedger(rt: RuntimeContext, { meta, status }: ContainerRecord): Promise<void> {
  const owner = containerOwner(meta.id);
  const task = taskOf(status);
  const isPresent = isOfBoot(status, rt.bootId);
  const mayHold = [
    { kind: 'snapshot', key: meta.id, volatile: false },
    ...volumeSnapshots(meta),
    ...startItems(rt, meta).map((item) =>
      item.kind === 'task' && task !== undefined ? { ...item, data: { ...task } } : item,
    ),
  ];
  const held = mayHold.filter((item) => {
    if (isNoted(rt, owner, item)) return true;
    if (item.volatile && !isPresent) return false;
    return isDamaged(rt, owner, item) || (isPresent && task !== undefined && item.kind !== 'snapshot');
  });
  await restore(rt, owner, held);
}

/** The same for a sandbox of this boot that has not been stopped, READY or not; of another boot only what outlived that one. */
export async function restoreSandboxLedger(op: Op, rt: RuntimeContext, record: SandboxRecord): Promise<void> {
  const { meta, status } = record;
  const owner = sandboxOwner(meta.id);
  const isPresent = status.bootId === rt.bootId;
  const mayHold = sandboxItems(rt, meta).map((item) =>
    item.kind === 'task' && status.infra !== undefined ? { ...item, data: { ...status.infra } } : item,
  );
  const held = mayHold.filter((item) => {
    if (isNoted(rt, owner, item)) return true;
    if (item.volatile && !isPresent) return false;
    return (
      isDamaged(rt, owner, item) || (isPresent && (status.stopped !== true || KEPT_BY_STOPPED.includes(item.kind)))
    );
  });
  const connection = await connectionOf(op, rt, record);
  await restore(rt, owner, connection === undefined ? held : [...held, connection]);
}

/**
 * Its connection to the pod network. Where the row of it could not be read, it is taken down as the network is configured now: without
 * the address that the pod got, which the plug-ins know by its id.
 */
async function connectionOf(
  op: Op,
  rt: RuntimeContext,
  { meta, status }: SandboxRecord,
): Promise<LedgerItem | undefined> {
  const owner = sandboxOwner(meta.id);
  const item = { kind: 'cni', key: meta.id, volatile: false };
  if (isNoted(rt, owner, item)) return item;
  const { netnsPath } = meta.facts;
  if (netnsPath === undefined || status.stopped === true || !isDamaged(rt, owner, item)) return undefined;
  try {
    const plan = await rt.networks.planAgain(op, networkRequestOf(meta, netnsPath));
    return { ...item, data: { plan, netnsPath } };
  } catch (error) {
    rt.log.error({ sandboxId: meta.id, error: messageOf(error) }, 'how it is disconnected is lost');
    return undefined;
  }
}

function isNoted(rt: RuntimeContext, owner: string, { kind, key }: LedgerItem): boolean {
  return rt.ledger.entriesOf(owner).some((entry) => entry.kind === kind && entry.key === key);
}

function isDamaged(rt: RuntimeContext, owner: string, { kind, key }: LedgerItem): boolean {
  return rt.ledger.damaged.some((entry) => entry.owner === owner && entry.kind === kind && entry.key === key);
}

async function restore(rt: RuntimeContext, owner: string, items: readonly LedgerItem[]): Promise<void> {
  const missing = await rt.ledger.restore(owner, items);
  if (missing.length === 0) return;
  rt.log.warn({ owner, kinds: missing.map(({ kind }) => kind) }, 'the ledger had lost entries: written down again');
}
