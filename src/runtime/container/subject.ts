import type { JournalSubject } from '../../journal/journal.ts';
import type { RuntimeContext } from '../context.ts';
import { containerSubject, type ContainerMeta } from '../store/container-record.ts';
import { sandboxSubject } from '../store/sandbox-record.ts';

/** Whom a journal entry about a container is about: the container, its sandbox and its pod. */
export function subjectOf(rt: Pick<RuntimeContext, 'sandboxes'>, meta: ContainerMeta): JournalSubject {
  const sandbox = rt.sandboxes.get(meta.facts.sandboxId);
  return containerSubject(meta, sandbox === undefined ? undefined : sandboxSubject(sandbox.meta));
}

/** Of a container or a sandbox; empty when there is none with that id (any more). */
export function subjectOfId(rt: Pick<RuntimeContext, 'sandboxes' | 'containers'>, id: string): JournalSubject {
  const container = rt.containers.get(id);
  if (container !== undefined) return subjectOf(rt, container.meta);
  const sandbox = rt.sandboxes.get(id);
  return sandbox === undefined ? {} : sandboxSubject(sandbox.meta);
}
