import type { CriConnection } from '../cri/client.ts';
import { inspectorOf } from '../cri/inspector/inspector-service.ts';
import type { Inspector } from '../cri/inspector/inspector.ts';
import { summarizePending } from '../cri/inspector/summarize-pending.ts';
import type {
  Explanation,
  ExplainContainerRequest,
  ExplainRequest,
  GantryExtensions,
} from '../kube/gantry-extensions.ts';
import { ageDifference } from '../kube/http/older-daemon.ts';
import type { Op } from '../lib/abort.ts';
import { failedPrecondition, isKind } from '../lib/errors.ts';
import { PACKAGE_VERSION } from '../lib/package-version.ts';

/** What `explain`, `doctor` and `image import` ask: the API, or the runtime alone. */
export type DiagnosisSource = Pick<GantryExtensions, 'explain' | 'explainContainer' | 'doctor' | 'importImage'>;

/** What the API would answer, out of what the runtime alone knows: pods without what their agent has pending. */
export function criDiagnosis(connection: CriConnection): DiagnosisSource {
  const inspector = inspectorOf(connection);
  const asked = async <T>(op: Op, question: Promise<T>): Promise<T> => {
    try {
      return await question;
    } catch (error) {
      throw isKind(error, 'NotImplemented') ? await otherRuntime(op, connection, error) : error;
    }
  };
  return {
    explain: (op, request) => asked(op, explainPod(op, inspector, request)),
    explainContainer: (op, request) => asked(op, explainContainer(op, inspector, request)),
    doctor: (op, request) => asked(op, inspector.doctor(op, request)),
    // Nothing is told on the way.
    importImage: async function* (op, request) {
      for (const image of await asked(op, inspector.importImages(op, request))) yield { kind: 'done', image };
    },
  };
}

/** Why the question is not known: an older Gantry, or another runtime altogether. */
async function otherRuntime(op: Op, { runtime }: CriConnection, error: unknown): Promise<unknown> {
  try {
    const { runtimeName, runtimeVersion } = await runtime.version(op, { version: '' });
    return failedPrecondition(
      runtimeName === 'gantry'
        ? ageDifference(runtimeVersion, PACKAGE_VERSION, 'it does not know the question')
        : `what answers on the CRI socket is ${runtimeName} ${runtimeVersion} and no gantryd: it cannot tell`,
      { cause: error },
    );
  } catch {
    return error;
  }
}

async function explainContainer(
  op: Op,
  inspector: Inspector,
  { namespace, container }: ExplainContainerRequest,
): Promise<Explanation> {
  const answer = await inspector.explain(op, { subject: { podNamespace: namespace }, container });
  const uid = answer.objects.at(-1)?.podUid;
  return { ...answer, ...(uid === undefined ? {} : { uid }), pending: answer.pending.map(summarizePending) };
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
