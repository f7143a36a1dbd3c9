import type { Op } from '../lib/abort.ts';
import { rfc3339 } from '../lib/clock.ts';
import { isKind } from '../lib/errors.ts';
import type { JournalReader } from '../journal/journal.ts';
import type { Inspector, PendingItem } from '../cri/inspector/inspector.ts';
import type { KubeClient } from '../kube/client.ts';
import type { Explanation, ExplainRequest, PendingWork } from '../kube/gantry-extensions.ts';

export interface ExplainDeps {
  readonly journal: JournalReader;
  readonly inspector: Pick<Inspector, 'pendingWork'>;
  readonly kube: KubeClient;
  /** What the agent has not finished of a pod, its blocked volumes among it. */
  pendingOfAgent(podUid: string): readonly PendingWork[];
}

/** One pod's life: what the journal has, and what agent and runtime still have to do. Of several lives of a name, the present or the last. */
export async function explainPod(op: Op, deps: ExplainDeps, request: ExplainRequest): Promise<Explanation> {
  const { namespace, name } = request;
  const uid = request.uid ?? (await presentUid(op, deps.kube, request)) ?? (await lastUid(deps.journal, request));
  if (uid === undefined) return { entries: [], pending: [] };
  const entries = await deps.journal.query({ podUid: uid });
  const ofRuntime = await deps.inspector.pendingWork(op, { podUid: uid, podNamespace: namespace, podName: name });
  return { uid, entries, pending: [...deps.pendingOfAgent(uid), ...ofRuntime.map(pendingWork)] };
}

async function presentUid(op: Op, kube: KubeClient, { namespace, name }: ExplainRequest): Promise<string | undefined> {
  try {
    return (await kube.get(op, 'pods', { namespace, name })).metadata.uid;
  } catch (error) {
    if (isKind(error, 'NotFound')) return undefined;
    throw error;
  }
}

async function lastUid(journal: JournalReader, { namespace, name }: ExplainRequest): Promise<string | undefined> {
  const entries = await journal.query({ podNamespace: namespace, podName: name });
  return entries.findLast((entry) => entry.subject.podUid !== undefined)?.subject.podUid;
}

function pendingWork(item: PendingItem): PendingWork {
  return {
    what: item.kind,
    message:
      item.subject.containerName === undefined
        ? item.message
        : `container ${item.subject.containerName}: ${item.message}`,
    since: rfc3339(item.sinceWallMs),
    attempts: item.attempts,
    ...(item.lastError === undefined ? {} : { lastError: item.lastError }),
  };
}
