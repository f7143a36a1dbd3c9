import type { Ledger } from '../../../lib/ledger.ts';
import { readConfigFolder } from '../../network/config-folder.ts';
import { readPlan, type PlainPlan } from '../../network/network-plan.ts';
import { dataDirsOf } from '../../network/reservations.ts';

/** Where the network that is configured now has its addresses from host-local; none without one. */
export async function dataDirsIn(confDir: string): Promise<string[]> {
  const folder = await readConfigFolder(confDir);
  return folder.kind === 'found' ? dataDirsOf(folder.config) : [];
}

/** The same of the networks that pods are connected to. */
export function dataDirsHeld({ ledger }: { readonly ledger: Pick<Ledger, 'owners' | 'entriesOf'> }): string[] {
  const entries = ledger.owners().flatMap((owner) => ledger.entriesOf(owner));
  return entries.flatMap(({ kind, data }) =>
    kind === 'cni' ? dataDirsOf(readPlan(data['plan'] as PlainPlan).network) : [],
  );
}
