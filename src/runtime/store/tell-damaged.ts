import type { JournalReader, JournalSubject, JournalWriter } from '../../journal/journal.ts';
import type { DamagedEntry } from '../../lib/ledger.ts';
import { mayHaveProcess } from '../container/state.ts';
import type { ContainerStore } from './container-record.ts';
import { parseOwner } from './owners.ts';
import type { SandboxStore } from './sandbox-record.ts';

export interface Opened {
  readonly sandboxes: Pick<SandboxStore, 'damaged'>;
  readonly containers: Pick<ContainerStore, 'damaged' | 'list'>;
  readonly ledger: { readonly damaged: readonly DamagedEntry[] };
}

/**
 * Names what could not be read to who asks `explain`, also for the pod that it was part of, which the journal itself remembers. What a
 * record named has no owner now, and is released; a container whose sandbox is lost ends with that.
 */
export async function tellDamaged(journal: JournalWriter & JournalReader, opened: Opened): Promise<void> {
  const { sandboxes, containers, ledger } = opened;
  for (const { id, reason } of sandboxes.damaged) {
    const subject = await remembered(journal, { sandboxId: id });
    journal.record({ subject, what: 'sandbox.record-damaged', message: ofRecord(reason), outcome: 'failed' });
    for (const { meta, status } of containers.list()) {
      if (meta.facts.sandboxId !== id || !mayHaveProcess(status)) continue;
      journal.record({
        subject: await remembered(journal, { containerId: meta.id, sandboxId: id }),
        what: 'container.sandbox-lost',
        message: 'it is ended with its sandbox, whose record cannot be read',
        why: reason,
        outcome: 'failed',
      });
    }
  }
  for (const { id, reason } of containers.damaged) {
    const subject = await remembered(journal, { containerId: id });
    journal.record({ subject, what: 'container.record-damaged', message: ofRecord(reason), outcome: 'failed' });
  }
  for (const damaged of ledger.damaged) {
    const owner = parseOwner(damaged.owner);
    const subject =
      owner === undefined ? {} : owner.kind === 'container' ? { containerId: owner.id } : { sandboxId: owner.id };
    journal.record({
      subject: owner === undefined ? subject : await remembered(journal, subject),
      what: 'ledger.damaged',
      message: ofEntry(damaged),
      outcome: 'failed',
    });
  }
}

function ofRecord(reason: string): string {
  return `its record cannot be read and is set aside, what it held is released: ${reason}`;
}

function ofEntry({ kind, key, setAside, reason }: DamagedEntry): string {
  const goesOn = setAside ? 'cannot be read and is set aside' : 'is damaged, and taken as one that may be there';
  return `the ledger's entry of its ${kind} ${key} ${goesOn}: ${reason}`;
}

/** With the pod, as the last entry about it has it; that may be about a container of the sandbox. */
async function remembered(journal: JournalReader, subject: JournalSubject): Promise<JournalSubject> {
  // A disk that does not answer keeps nothing from starting.
  const entries = await journal.query(subject).catch(() => []);
  const last = entries.findLast((entry) => entry.subject.podUid !== undefined)?.subject ?? {};
  if (subject.containerId !== undefined) return { ...last, ...subject };
  const pod = Object.entries(last).filter(([key]) => !key.startsWith('container') && key !== 'image');
  return { ...Object.fromEntries(pod), ...subject };
}
