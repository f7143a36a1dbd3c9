import type { Op } from '../lib/abort.ts';
import { isKind } from '../lib/errors.ts';
import type { JournalReader } from '../journal/journal.ts';
import type { Inspector } from '../cri/inspector/inspector.ts';
import { summarizePending } from '../cri/inspector/summarize-pending.ts';
import type { KubeClient } from '../kube/client.ts';
import type { Explanation, ExplainContainerRequest, ExplainRequest, PendingWork } from '../kube/gantry-extensions.ts';

export interface ExplainDeps {
  readonly journal: JournalReader;
  readonly inspector: Pick<Inspector, 'explain'>;
  readonly kube: KubeClient;
  /** What the agent has not finished of a pod, its blocked volumes among it. */
  pendingOfAgent(podUid: string): readonly PendingWork[];
}

/** One pod's life: what the journal has, and what agent and runtime still have to do. Of several lives of a name, the present or the last. */
export async function explainPod(op: Op, deps: ExplainDeps, request: ExplainRequest): Promise<Explanation> {
  const uid = request.uid ?? (await presentUid(op, deps.kube, request)) ?? (await lastUid(deps.journal, request));
  if (uid === undefined) return { entries: [], pending: [], objects: [] };
  const { entries, pending, objects } = await deps.inspector.explain(op, { subject: { podUid: uid } });
  return { uid, entries, objects, pending: [...deps.pendingOfAgent(uid), ...pending.map(summarizePending)] };
}

/** Every run of one container, or the one that an id names. */
export async function explainContainer(
  op: Op,
  { inspector, pendingOfAgent }: Pick<ExplainDeps, 'inspector' | 'pendingOfAgent'>,
  { namespace, container }: ExplainContainerRequest,
): Promise<Explanation> {
  const question = { subject: { podNamespace: namespace }, container };
  const { entries, pending, objects } = await inspector.explain(op, question);
  const last = objects.at(-1);
  const podUid = last?.podUid;
  const ofAgent = podUid === undefined ? [] : pendingOfAgent(podUid);
  return {
    ...(podUid === undefined ? {} : { uid: podUid }),
    entries,
    objects,
    pending: [
      ...ofAgent.filter(({ what }) => what === `container ${last?.name ?? ''}`),
      ...pending.map(summarizePending),
    ],
  };
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
