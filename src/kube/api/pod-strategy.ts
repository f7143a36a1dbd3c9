import { isDeepStrictEqual } from 'node:util';
import type { Pod } from '../objects.ts';
import { isRecord } from '../validate/check-shape.ts';
import { forbidden, type FieldPath, type Issue } from '../validate/issue.ts';

/** What is peculiar to pods: what of them may change, and how they end. Pure. */

const INSTEAD = 'delete the pod and create it anew';
const MAY_NOT = `may not change once the pod exists (only \`spec.containers[*].image\` and additions to \`spec.tolerations\` may): ${INSTEAD}`;

/** Naming more than so many changed fields helps nobody. */
const MAX_NAMED = 8;

/** The fields of the specification that may not change once the pod exists, and have. Containers are the same by their names. */
export function immutableFieldIssues(current: Pod, next: Pod): Issue[] {
  const [before, after] = [structuredClone(current.spec), structuredClone(next.spec)];
  const issues = containerSetIssues(before.containers, after.containers);
  for (const [index, container] of after.containers.entries()) {
    const earlier = before.containers.find(({ name }) => name === container.name);
    if (earlier === undefined) continue;
    const path = ['spec', 'containers', index];
    issues.push(...changedPaths({ ...earlier, image: container.image }, container, path).map(mayNotChange));
  }
  const tolerated = before.tolerations ?? [];
  if (tolerated.every((toleration) => after.tolerations?.some((each) => isDeepStrictEqual(each, toleration)))) {
    delete before.tolerations;
    delete after.tolerations;
  }
  issues.push(...changedPaths({ ...before, containers: [] }, { ...after, containers: [] }, ['spec']).map(mayNotChange));
  return issues.slice(0, MAX_NAMED);
}

type Named = readonly { readonly name: string }[];

function containerSetIssues(before: Named, after: Named): Issue[] {
  const gone = missingIn(after, before);
  const came = missingIn(before, after);
  if (gone.length + came.length > 0) {
    const words = [...gone.map((name) => `"${name}" is gone`), ...came.map((name) => `"${name}" is new`)].join(', ');
    const index = after.findIndex(({ name }) => name === came[0]);
    const path: FieldPath = index < 0 ? ['spec', 'containers'] : ['spec', 'containers', index, 'name'];
    return [forbidden(path, `${words}: containers may not come, go or be renamed once the pod exists: ${INSTEAD}`)];
  }
  if (before.every(({ name }, index) => name === after[index]?.name)) return [];
  return [forbidden(['spec', 'containers'], `the order of the containers ${MAY_NOT}`)];
}

function missingIn(all: Named, some: Named): string[] {
  return some.map(({ name }) => name).filter((name) => !all.some((each) => each.name === name));
}

function mayNotChange(path: FieldPath): Issue {
  return forbidden(path, MAY_NOT);
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
