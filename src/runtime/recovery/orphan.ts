import { parseOwner } from '../store/owners.ts';
import { containerOfSnapshot } from '../store/paths.ts';

/** Something on the host that is this instance's and that no object owns. */
export type Orphan =
  | { readonly kind: 'ledger'; readonly owner: string }
  | { readonly kind: 'sandbox-folder' | 'container-folder'; readonly id: string }
  | { readonly kind: 'snapshot' | 'exit-file'; readonly id: string }
  | { readonly kind: 'netns'; readonly path: string }
  | { readonly kind: 'cgroup'; readonly path: string };

/** The lane of what an orphan was part of: what is left of one object goes in order, of several side by side. */
export function laneOfOrphan(orphan: Orphan): string {
  switch (orphan.kind) {
    case 'ledger': {
      const owner = parseOwner(orphan.owner);
      // A disconnecting that outlived its sandbox is nothing that the rest of it waits for.
      return owner === undefined || owner.kind === 'network' ? orphan.owner : owner.id;
    }
    case 'netns':
      return orphan.path;
    case 'cgroup':
      return /(?:^|\/|pod|-)([0-9a-f]{64})(?:\.slice)?$/.exec(orphan.path)?.[1] ?? orphan.path;
    case 'snapshot':
      return containerOfSnapshot(orphan.id) ?? orphan.id;
    default:
      return orphan.id;
  }
}
