import { recordStep } from '../../journal/record-step.ts';
import { withDeadline, type Op } from '../../lib/abort.ts';
import { isKind, joinErrors, messageOf } from '../../lib/errors.ts';
import { durably } from '../container/durably.ts';
import type { RuntimeContext } from '../context.ts';
import { deferredNetworkOwner, sandboxOwner } from '../store/owners.ts';
import { sandboxSubject, type SandboxRecord } from '../store/sandbox-record.ts';
import { transition } from './state.ts';

/** Each kind of thing has its own budget: a network plug-in that hangs takes no time from the infra process. */
const INFRA_TIMEOUT_MS = 30_000;
const NETWORK_TIMEOUT_MS = 60_000;
const NAMESPACES_TIMEOUT_MS = 30_000;
/** So many failures of CNI DEL hold a pod's end up; then it goes on without, and DEL is tried for as long as it takes. */
const NETWORK_ATTEMPTS = 3;

/**
 * Releases what StopPodSandbox has to release: infra process, pod network, namespaces, shm. Idempotent and resumable: the
 * ledger says what is left. Throws while something is. Runs in the sandbox's lane; its containers are dead by then.
 */
export async function releaseSandbox(op: Op, rt: RuntimeContext, id: string): Promise<void> {
  const record = rt.sandboxes.get(id);
  if (record === undefined || record.status.stopped === true) return;
  const owner = sandboxOwner(id);
  const release = async (what: string, timeoutMs: number, kinds: readonly string[]): Promise<void> => {
    await withDeadline(op, rt.clock, timeoutMs, `releasing the ${what} of sandbox ${id}`, async (stepOp) => {
      const failures = await rt.ledger.release(stepOp, owner, rt.releasers, kinds);
      if (failures.length > 0) throw joinErrors(failures.map((failure) => failure.error));
    });
  };
  // The process first: it is what keeps the namespaces alive beside the pins.
  await release('infra process', INFRA_TIMEOUT_MS, ['task']);
  await rt.faults.reach('stop-sandbox/infra-released');
  await disconnect(rt, record, () => release('network', NETWORK_TIMEOUT_MS, ['cni']));
  await rt.faults.reach('stop-sandbox/network-released');
  await release('namespaces', NAMESPACES_TIMEOUT_MS, ['pin', 'tmpfs']);
  await rt.faults.reach('stop-sandbox/namespaces-released');
  await durably(rt.sandboxes, id, (status) => transition(status, { kind: 'stopped', atWallMs: rt.clock.wallMs() }));
  await rt.faults.reach('stop-sandbox/stopped');
}

async function disconnect(rt: RuntimeContext, record: SandboxRecord, del: () => Promise<void>): Promise<void> {
  const { id } = record.meta;
  const subject = sandboxSubject(record.meta);
  const entry = rt.ledger.entriesOf(sandboxOwner(id)).find(({ kind }) => kind === 'cni');
  if (entry === undefined) return;
  const step = 'disconnecting the pod network';
  try {
    await recordStep(rt, subject, { what: 'sandbox.network-released', message: 'pod network disconnected', step }, del);
  } catch (error) {
    const attempts = (rt.retries.viewOf(id)?.attempts ?? 0) + 1;
    if (attempts < NETWORK_ATTEMPTS || isKind(error, 'Canceled')) throw error;
    const owner = deferredNetworkOwner(id);
    const data = { ...entry.data, subject };
    await rt.ledger.intend(owner, { kind: entry.kind, key: entry.key, data, volatile: false });
    await rt.ledger.forget(entry);
    rt.journal.record({
      subject,
      what: 'sandbox.network-deferred',
      message: `network cleanup deferred, it is tried again until it succeeds: ${messageOf(error)}`,
      outcome: 'blocked',
    });
    rt.retries.fail(owner, { kind: 'orphan', orphan: { kind: 'ledger', owner } }, error);
  }
}
