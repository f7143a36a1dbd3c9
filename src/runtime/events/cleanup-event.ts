import type { Orphan } from '../recovery/orphan.ts';

/** Work that is done after the fact, and again until it is done. Keyed by the container's or sandbox's id. */
export type CleanupEvent =
  /** Task, monitor, cgroup, mounts and bundle of a container that has exited. */
  | { readonly kind: 'container-cleanup' }
  /** A removal that was asked for and could not be finished. */
  | { readonly kind: 'container-removal' }
  /** A stop of a sandbox that was asked for and could not be finished. */
  | { readonly kind: 'sandbox-release' }
  | { readonly kind: 'sandbox-removal' }
  /** What a run or create that failed, or a process that died, left half made. */
  | { readonly kind: 'rollback'; readonly of: 'sandbox' | 'container' }
  /** An object that could not be looked at yet at the start. */
  | { readonly kind: 'recovery'; readonly of: 'sandbox' | 'container' }
  /** A leftover without an object. */
  | { readonly kind: 'orphan'; readonly orphan: Orphan };

/**
 * A container that was not looked at yet has no exit monitor: whatever waits for its end would wait for ever in front of its
 * recovery.
 */
export function goesFirst(event: CleanupEvent): boolean {
  return event.kind === 'recovery';
}

export function cleanupName(event: CleanupEvent): string {
  if (event.kind === 'orphan') return `leftover (${event.orphan.kind})`;
  return 'of' in event ? `${event.kind} of the ${event.of}` : event.kind;
}
