import type { Op } from '../../lib/abort.ts';
import { unavailable, type GantryError } from '../../lib/errors.ts';

/** What this room needs of linux/safe-remove, the only code that deletes trees. */
export interface TreeRemover {
  /** Deletes `path`, which lies below `root`. */
  remove(op: Op, request: { readonly root: string; readonly path: string }): Promise<TreeRemoval>;
}

export type TreeRemoval =
  | { readonly kind: 'removed' }
  | { readonly kind: 'absent' }
  | { readonly kind: 'blocked'; readonly blockers: readonly RemovalBlocker[] };

export interface RemovalBlocker {
  /** One line for people, with the path. */
  readonly message: string;
}

/** Removed or absent is fine; anything that is in the way is an error that names it. Try again later. */
export async function removeTree(remover: TreeRemover, op: Op, root: string, path: string): Promise<void> {
  const outcome = await remover.remove(op, { root, path });
  if (outcome.kind === 'blocked') throw blocked(path, outcome.blockers);
}

function blocked(path: string, blockers: readonly RemovalBlocker[]): GantryError {
  const named = blockers.slice(0, 5).map((blocker) => blocker.message);
  const more = blockers.length > named.length ? ` and ${String(blockers.length - named.length)} more` : '';
  return unavailable(`${path} can not be removed: ${named.join('; ')}${more}`, { details: { path, blockers } });
}
