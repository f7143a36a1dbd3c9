import type { CriConnection } from '../cri/client.ts';
import { inspectorOf } from '../cri/inspector/inspector-service.ts';
import type { Inspector } from '../cri/inspector/inspector.ts';
import { summarizePending } from '../cri/inspector/summarize-pending.ts';
import type { Explanation, ExplainRequest, GantryExtensions } from '../kube/gantry-extensions.ts';
import type { Op } from '../lib/abort.ts';

/** What `explain` and `doctor` ask: the API, or the runtime alone. */
export type DiagnosisSource = Pick<GantryExtensions, 'explain' | 'explainContainer' | 'doctor'>;

/** What the API would answer, out of what the runtime alone knows: pods without what their agent has pending. */
export function criDiagnosis(connection: CriConnection): DiagnosisSource {
  const inspector = inspectorOf(connection);
  return {
    explain: (op, request) => explainPod(op, inspector, request),
    explainContainer: async (op, { namespace, container }) => {
      const answer = await inspector.explain(op, { subject: { podNamespace: namespace }, container });
      const uid = answer.objects.at(-1)?.podUid;
      return { ...answer, ...(uid === undefined ? {} : { uid }), pending: answer.pending.map(summarizePending) };
    },
    doctor: (op, request) => inspector.doctor(op, request),
  };
}

/** Of several lives of a name, the last: without the API nobody knows which is the present one. */
async function explainPod(op: Op, inspector: Inspector, request: ExplainRequest): Promise<Explanation> {
  const named = { podNamespace: request.namespace, podName: request.name };
  const subject = request.uid === undefined ? named : { podUid: request.uid };
  const { entries, pending, objects } = await inspector.explain(op, { subject });
  const uid =
    request.uid ??
    objects.findLast(({ podUid }) => podUid !== undefined)?.podUid ??
    entries.findLast((entry) => entry.subject.podUid !== undefined)?.subject.podUid;
  const isOfLife = (podUid: string | undefined): boolean => podUid === undefined || podUid === uid;
  return {
    ...(uid === undefined ? {} : { uid }),
    entries: entries.filter((entry) => isOfLife(entry.subject.podUid)),
    pending: pending.filter((item) => isOfLife(item.subject.podUid)).map(summarizePending),
    objects: objects.filter(({ podUid }) => isOfLife(podUid)),
  };
}
