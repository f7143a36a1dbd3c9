/** What is done after something has ended, and again until it is done. Keyed by the container's or sandbox's id. */
export type CleanupEvent =
  /** Task, monitor, cgroup, mounts and bundle of a container that has exited. */
  | { readonly kind: 'container-cleanup' }
  /** A removal that was asked for and could not be finished. */
  | { readonly kind: 'container-removal' }
  /** A sandbox's network, namespaces, shm and infra process. */
  | { readonly kind: 'sandbox-release' }
  | { readonly kind: 'sandbox-removal' }
  /** What a run or create that failed, or a process that died, left half made. */
  | { readonly kind: 'rollback'; readonly of: 'sandbox' | 'container' }
  /** A leftover without an object: released by owner name in the ledger. */
  | { readonly kind: 'orphan'; readonly owner: string };
