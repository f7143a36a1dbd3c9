import { isDeepStrictEqual } from 'node:util';
import type { Pod } from '../objects.ts';
import { isRecord } from '../validate/check-shape.ts';
import { forbidden, type FieldPath, type Issue } from '../validate/issue.ts';

/** What is peculiar to pods: what of them may change, and how they end. Pure. */

const CHANGEABLE = 'only `spec.containers[*].image` and additions to `spec.tolerations` may';

/** Naming more than so many changed fields helps nobody. */
const MAX_NAMED = 8;

/** The fields of the specification that may not change once the pod exists, and have. */
export function immutableFieldIssues(current: Pod, next: Pod): Issue[] {
  const allowed = structuredClone(next.spec);
  for (const [index, container] of allowed.containers.entries()) {
    const before = current.spec.containers[index];
    if (before?.name === container.name) container.image = before.image;
  }
  const before = current.spec.tolerations ?? [];
  const after = next.spec.tolerations ?? [];
  if (before.every((toleration) => after.some((each) => isDeepStrictEqual(each, toleration)))) {
    if (current.spec.tolerations === undefined) delete allowed.tolerations;
    else allowed.tolerations = current.spec.tolerations;
  }
  return changedPaths(current.spec, allowed, ['spec'])
    .slice(0, MAX_NAMED)
    .map((path) =>
      forbidden(path, `may not change once the pod exists (${CHANGEABLE}): delete the pod and create it anew`),
    );
}

function changedPaths(before: unknown, after: unknown, path: FieldPath): FieldPath[] {
  if (isDeepStrictEqual(before, after)) return [];
  if (isRecord(before) && isRecord(after)) {
    const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...keys].flatMap((key) => changedPaths(before[key], after[key], [...path, key]));
  }
  if (Array.isArray(before) && Array.isArray(after) && before.length === after.length) {
    return before.flatMap((item: unknown, index) => changedPaths(item, after[index], [...path, index]));
  }
  return [path];
}

/** What a delete does to a pod. */
export type PodDeletion =
  /** Its end begins, or comes nearer: the agent sees the new metadata. */
  | { readonly kind: 'mark'; readonly pod: Pod }
  /** Nothing changes: its end is near enough already. */
  | { readonly kind: 'unchanged' }
  /** The object goes. */
  | { readonly kind: 'remove' };

export interface PodDeletionRequest {
  readonly gracePeriodSeconds?: number;
  /** The request names the uid, so it cannot hit a successor: a condition for the agent's last word. */
  readonly namesUid: boolean;
  /** The agent's node. A pod of another node has no agent that would ever confirm its end. */
  readonly nodeName?: string;
  readonly wallMs: number;
}

/**
 * A pod being deleted stays in the API until nothing of it is left on the node. Its deadline is the earliest that any
 * delete asked for: a later, shorter request brings it nearer, a longer one changes nothing (FAILURES.md 24).
 */
export function decidePodDeletion(pod: Pod, request: PodDeletionRequest): PodDeletion {
  const { metadata, spec } = pod;
  const graceSeconds = request.gracePeriodSeconds ?? spec.terminationGracePeriodSeconds ?? 30;
  if (request.nodeName !== undefined && spec.nodeName !== request.nodeName) return { kind: 'remove' };
  if (metadata.deletionTimestamp !== undefined && graceSeconds === 0 && request.namesUid) return { kind: 'remove' };
  const before = metadata.deletionTimestamp;
  let deadlineMs = request.wallMs + graceSeconds * 1000;
  if (before !== undefined) {
    const beforeMs = Date.parse(before);
    if (graceSeconds >= (metadata.deletionGracePeriodSeconds ?? Number.POSITIVE_INFINITY)) return { kind: 'unchanged' };
    // Timestamps have whole seconds. "At once" is news to the agent even when the deadline has passed.
    if (graceSeconds > 0 && Math.floor(deadlineMs / 1000) * 1000 > beforeMs) return { kind: 'unchanged' };
    deadlineMs = Math.min(deadlineMs, beforeMs);
  }
  return {
    kind: 'mark',
    pod: {
      ...pod,
      metadata: {
        ...metadata,
        deletionTimestamp: secondsTimestamp(deadlineMs),
        deletionGracePeriodSeconds: graceSeconds,
        generation: (metadata.generation ?? 0) + 1,
      },
    },
  };
}

/** RFC 3339 in whole seconds, as metadata has it. */
export function secondsTimestamp(wallMs: number): string {
  return new Date(wallMs).toISOString().replace(/\.\d{3}Z$/, 'Z');
}
