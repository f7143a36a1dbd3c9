import type { Op } from '../lib/abort.ts';
import type { New, ObjectList, Resource, ResourceTypes, Status, WatchEvent } from './objects.ts';

/** Names one object. Namespaced resources need `namespace`; nodes and namespaces have none. */
export interface ObjectKey {
  readonly namespace?: string;
  readonly name: string;
}

export interface ListOptions {
  /** Absent: all namespaces. */
  readonly namespace?: string;
  /** Kubernetes' syntax: `app=web,tier in (a,b),!old`. */
  readonly labelSelector?: string;
  /** `metadata.name=web,spec.nodeName!=other`; which fields can be asked for depends on the resource. */
  readonly fieldSelector?: string;
}

export interface WatchOptions extends ListOptions {
  /** Events after this version; absent or '0': first an ADDED for all there is. Too old a version fails with OutOfRange (410 Gone): list again. */
  readonly resourceVersion?: string;
  /** Sends a BOOKMARK now and then (default false). */
  readonly bookmarks?: boolean;
  /** The watch ends by itself after so long. Absent: when the op's signal fires or the API closes. */
  readonly timeoutMs?: number;
}

export interface WriteOptions {
  /** Everything is checked, nothing is stored. */
  readonly dryRun?: boolean;
  /** Gets each warning that came with the answer (fields that are known and ignored). */
  readonly onWarning?: (warning: string) => void;
  /** Called if the write has made the object: of several who apply a new one at once, for one alone. */
  readonly onCreated?: () => void;
  /** Called if an apply has left the object as it was. Only Gantry's own API says so. */
  readonly onUnchanged?: () => void;
}

export interface DeleteOptions extends WriteOptions {
  /**
   * Absent: the pod's own. A second delete can bring the end of a pod nearer and never puts it off.
   * A pod stays in the API until its agent says that nothing of it is left, which is a delete with grace 0 **and**
   * `preconditions.uid` of a pod that is already being deleted; a user's grace 0 only makes the agent kill at once.
   */
  readonly gracePeriodSeconds?: number;
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
}

export type Patch =
  /** RFC 7386. */
  | { readonly type: 'merge'; readonly body: unknown }
  /** RFC 6902. */
  | { readonly type: 'json'; readonly body: readonly unknown[] }
  /** Merges lists by their keys (containers by name …), as kubectl edit and label do. */
  | { readonly type: 'strategic'; readonly body: unknown }
  /**
   * Makes the object as `body` says, creating it if it is not there. What the same manager applied before and `body` no longer
   * has is removed; what others have set is left alone.
   */
  | { readonly type: 'apply'; readonly body: unknown; readonly fieldManager: string };

/** Resources whose status is written apart from the rest. */
export type StatusResource = 'pods' | 'nodes' | 'namespaces';

/**
 * What agent and CLI need of a Kubernetes API, whether embedded (in process, over its socket) or remote.
 * Errors are GantryErrors: NotFound, AlreadyExists (create), Aborted (409 Conflict: read again and retry), InvalidArgument (400, 422),
 * OutOfRange (410), PermissionDenied, ResourceExhausted (413, 429), Unavailable. `details.status` has the API's Status object.
 */
export interface KubeClient {
  get<R extends Resource>(op: Op, resource: R, key: ObjectKey): Promise<ResourceTypes[R]>;
  list<R extends Resource>(op: Op, resource: R, options?: ListOptions): Promise<ObjectList<ResourceTypes[R]>>;
  create<R extends Resource>(
    op: Op,
    resource: R,
    object: New<ResourceTypes[R]>,
    options?: WriteOptions,
  ): Promise<ResourceTypes[R]>;
  /** With a resourceVersion in the object: only if nobody else has changed it meanwhile. Status is left as it is. */
  replace<R extends Resource>(
    op: Op,
    resource: R,
    object: New<ResourceTypes[R]>,
    options?: WriteOptions,
  ): Promise<ResourceTypes[R]>;
  /** Writes `status` alone. Without a resourceVersion the last writer wins. */
  replaceStatus<R extends StatusResource>(
    op: Op,
    resource: R,
    object: New<ResourceTypes[R]>,
    options?: WriteOptions,
  ): Promise<ResourceTypes[R]>;
  patch<R extends Resource>(
    op: Op,
    resource: R,
    key: ObjectKey,
    patch: Patch,
    options?: WriteOptions & { readonly subresource?: 'status' },
  ): Promise<ResourceTypes[R]>;
  /** The object as it now stands (a pod: with its deletionTimestamp), or the last state of what is gone. */
  delete<R extends Resource>(op: Op, resource: R, key: ObjectKey, options?: DeleteOptions): Promise<ResourceTypes[R]>;
  /** Ends quietly when the op's signal fires, the timeout passes or the API shuts down; throws when it breaks. */
  watch<R extends Resource>(op: Op, resource: R, options?: WatchOptions): AsyncIterable<WatchEvent<ResourceTypes[R]>>;
}

/** The Status object that came with an error of this API, if one did. */
export function statusOfError(error: unknown): Status | undefined {
  if (!(error instanceof Error) || !('details' in error)) return undefined;
  return (error.details as { status?: Status }).status;
}
