import type { JournalSubject } from '../../journal/journal.ts';
import type { Ledger } from '../../lib/ledger.ts';

/** Owners in the ledger: who an entry belongs to. */
export function sandboxOwner(id: string): string {
  return `sandbox/${id}`;
}

export function containerOwner(id: string): string {
  return `container/${id}`;
}

/** A pod network whose disconnecting outlived its sandbox. */
export function deferredNetworkOwner(sandboxId: string): string {
  return `network/${sandboxId}`;
}

/** The kind and id behind an owner's name; undefined for owners of other rooms. */
export function parseOwner(owner: string): { kind: 'sandbox' | 'container' | 'network'; id: string } | undefined {
  const match = /^(sandbox|container|network)\/([0-9a-f]{64})$/.exec(owner);
  if (match === null) return undefined;
  return { kind: match[1] as 'sandbox' | 'container' | 'network', id: match[2] ?? '' };
}

/** Of which pod a disconnecting is that outlived its sandbox: nothing else remembers that. Empty when it is not known. */
export function deferredNetworkSubject(ledger: Pick<Ledger, 'entriesOf'>, owner: string): JournalSubject {
  const entry = ledger.entriesOf(owner).find(({ data }) => data['subject'] !== undefined);
  return (entry?.data['subject'] as JournalSubject | undefined) ?? {};
}
